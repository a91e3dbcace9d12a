// SPDX-License-Identifier: Apache-2.0
// rename: moves a name, with everything below it, to another place. It may replace an object there, or exchange the
// two.
#include "server/meta/names/objects.h"
#include "server/meta/names/operations.h"
#include "server/meta/store/access.h"

namespace spate::meta {
namespace {

using trove::ReadMode;

/// How many conflicts with changes of ancestors a rename accepts before it locks all ancestors.
constexpr unsigned kConflictsBeforeLockingAncestors = 3;

/// Both names as the operation has read them.
struct Move {
  PathEnd from;
  PathEnd to;
  bool exchange = false;
  InodeRecord directories[2];
  std::optional<EntryRecord> to_entry;
  InodeRecord object;
  std::optional<InodeRecord> target;  // the object with the new name

  bool same_directory() const { return from.directory == to.directory; }
  InodeRecord& from_directory() { return directories[0]; }
  InodeRecord& to_directory() { return directories[same_directory() ? 0 : 1]; }
};

Result<void> check_flags(std::uint8_t flags) {
  if ((flags & ~(wire::kRenameNoReplace | wire::kRenameExchange)) != 0) {
    return Error::told(Errc::kInvalidArgument, "unknown rename flags");
  }
  const bool both = (flags & wire::kRenameNoReplace) != 0 && (flags & wire::kRenameExchange) != 0;
  return both ? Result<void>(Errc::kInvalidArgument) : Result<void>();
}

job::Task<Result<void>> find_places(Operation& operation, const wire::RenameRequest& request, Move& move) {
  Walker from(operation, request.from);
  SPATE_CO_TRY(move.from, co_await from.to_last_of_any_length());
  Walker to(operation, request.to);
  SPATE_CO_TRY(move.to, co_await to.to_last_of_any_length());
  // The code is not kBusy, because clients take that for a transient error and retry.
  if (move.from.last != PathEnd::Last::kName) co_return Errc::kInvalidArgument;
  if (move.to.last != PathEnd::Last::kName) {
    co_return (request.flags & wire::kRenameNoReplace) != 0 ? Errc::kExists : Errc::kInvalidArgument;
  }
  co_return {};
}

job::Task<Result<void>> read_both(Operation& operation, Move& move) {
  SPATE_CO_TRY(std::ignore, co_await admit_inside(operation, move.from.directory));
  SPATE_CO_TRY(std::ignore, co_await admit_inside(operation, move.to.directory));
  SPATE_CO_TRY(std::ignore, operation.lock({move.from.directory, move.to.directory}));
  SPATE_CO_TRY(move.directories[0], co_await operation.inode(move.from.directory));
  SPATE_CO_TRY(std::ignore, check_searchable(operation.who(), move.directories[0]));
  if (!move.same_directory()) {
    SPATE_CO_TRY(move.directories[1], co_await operation.inode(move.to.directory));
    SPATE_CO_TRY(std::ignore, check_searchable(operation.who(), move.directories[1]));
  }
  if (move.from.name.size() > kMaxNameBytes) co_return Errc::kNameTooLong;
  SPATE_CO_TRY(const auto from_entry, co_await operation.entry(move.from.directory, move.from.name));
  if (!from_entry) co_return Errc::kNotFound;
  if (move.to.name.size() > kMaxNameBytes) co_return Errc::kNameTooLong;
  SPATE_CO_TRY(move.to_entry, co_await operation.entry(move.to.directory, move.to.name));
  const EntryRecord source = *from_entry;
  SPATE_CO_TRY(move.object, co_await inode_of(operation, source, ReadMode::kChecked));
  if (move.to_entry) {
    const EntryRecord target = *move.to_entry;
    SPATE_CO_TRY(move.target, co_await inode_of(operation, target, ReadMode::kChecked));
  }
  co_return {};
}

/// Fails with kInvalidArgument if `moving` is `directory` or one of its ancestors, since it would end up below itself.
/// The ancestors are read checked: if one of them moves meanwhile, this operation runs again.
job::Task<Result<void>> check_not_below(Operation& operation, const InodeRecord& directory, Handle moving) {
  std::vector<Handle> chain;
  Handle parent = directory.parent;
  // The holder of a confined key moves nothing that is above the key's directory.
  const Handle top = operation.confinement() != nullptr ? operation.confinement()->root() : kRootHandle;
  for (Handle at = directory.handle(); at != top; at = parent) {
    if (at == moving) co_return Errc::kInvalidArgument;
    if (at != directory.handle()) {
      SPATE_CO_TRY(const InodeRecord ancestor, co_await operation.inode(at));
      parent = ancestor.parent;
    }
    chain.push_back(at);
    if (chain.size() > kDeepest) co_return Error(Errc::kCorrupt, "directories that are below themselves");
  }
  if (operation.conflicts() > kConflictsBeforeLockingAncestors) {
    SPATE_CO_TRY(std::ignore, operation.lock(std::move(chain)));
  }
  co_return {};
}

job::Task<Result<void>> check_no_loop(Operation& operation, Move& move) {
  if (move.same_directory()) co_return {};
  const bool target_moves = move.exchange && move.target && move.target->is_directory();
  if (!move.object.is_directory() && !target_moves) co_return {};
  SPATE_CO_TRY(std::ignore, operation.lock({kRenameLock}));
  if (move.object.is_directory()) {
    SPATE_CO_TRY(std::ignore, co_await check_not_below(operation, move.to_directory(), move.object.handle()));
  }
  if (target_moves) {
    SPATE_CO_TRY(std::ignore, co_await check_not_below(operation, move.from_directory(), move.target->handle()));
  }
  co_return {};
}

/// Fails if the target is an ancestor of the moving object: such a directory is not empty.
job::Task<Result<void>> check_not_above(Operation& operation, Move& move) {
  if (move.exchange || !move.target || !move.target->is_directory() || move.target->attributes.size == 0) co_return {};
  auto apart = co_await check_not_below(operation, move.from_directory(), move.target->handle());
  if (apart.code() == Errc::kInvalidArgument) co_return Errc::kNotEmpty;
  co_return apart;
}

Result<void> check_slashes(const Move& move) {
  const bool directory = move.object.is_directory();
  if (move.from.slash && !directory) return Errc::kNotDirectory;
  if (!move.to.slash) return {};
  const bool ends_as_directory = move.exchange ? move.target && move.target->is_directory() : directory;
  return ends_as_directory ? Result<void>() : Errc::kNotDirectory;
}

Result<void> check_rights(const Credential& who, Move& move) {
  const InodeRecord& from = move.from_directory();
  const InodeRecord& to = move.to_directory();
  if (!may(who, from, kWantWrite) || !may(who, to, kWantWrite)) return Errc::kPermissionDenied;
  if (!sticky_allows(who, from.attributes, move.object.attributes)) return Errc::kNotPermitted;
  if (move.target && !sticky_allows(who, to.attributes, move.target->attributes)) return Errc::kNotPermitted;
  if (move.same_directory()) return {};
  // Moving a directory to another parent changes its "..".
  const auto may_move = [&who](const InodeRecord& object) {
    return !object.is_directory() || may(who, object, kWantWrite);
  };
  const bool both = may_move(move.object) && (!move.exchange || may_move(*move.target));
  return both ? Result<void>() : Errc::kPermissionDenied;
}

Result<void> check_replaceable(const Move& move) {
  if (!move.target || move.exchange) return {};
  if (move.target->is_directory() && !move.object.is_directory()) return Errc::kIsDirectory;
  if (!move.target->is_directory() && move.object.is_directory()) return Errc::kNotDirectory;
  if (move.target->is_directory() && move.target->attributes.size != 0) return Errc::kNotEmpty;
  return {};
}

/// The object has lost its name in `from`, and got one in `to`.
void settle(Operation& operation, InodeRecord& object, Handle from, Handle to) {
  if (object.is_directory()) {
    object.parent = to;
  } else {
    move_name(object, from, to);
  }
  touch(object, operation.now());
  operation.put(object);
}

void put_directories(Operation& operation, Move& move) {
  operation.put(move.from_directory());
  if (!move.same_directory()) operation.put(move.to_directory());
}

EntryRecord entry_of(const InodeRecord& object) { return {object.handle(), object.attributes.type}; }

void exchange(Operation& operation, Move& move) {
  const int object_links = move.object.is_directory() ? 1 : 0;
  const int target_links = move.target->is_directory() ? 1 : 0;
  touch_entries(move.from_directory(), operation.now(), 0, target_links - object_links);
  touch_entries(move.to_directory(), operation.now(), 0, object_links - target_links);
  put_directories(operation, move);
  operation.put_entry(move.from.directory, move.from.name, entry_of(*move.target));
  operation.put_entry(move.to.directory, move.to.name, entry_of(move.object));
  settle(operation, move.object, move.from.directory, move.to.directory);
  settle(operation, *move.target, move.to.directory, move.from.directory);
}

job::Task<Result<void>> replace(Operation& operation, Move& move) {
  const int object_links = move.object.is_directory() ? 1 : 0;
  const int target_links = move.target && move.target->is_directory() ? 1 : 0;
  touch_entries(move.from_directory(), operation.now(), -1, -object_links);
  touch_entries(move.to_directory(), operation.now(), move.target ? 0 : 1, object_links - target_links);
  put_directories(operation, move);
  operation.erase_entry(move.from.directory, move.from.name);
  operation.put_entry(move.to.directory, move.to.name, entry_of(move.object));
  settle(operation, move.object, move.from.directory, move.to.directory);
  if (!move.target) co_return {};
  if (move.target->is_directory()) {
    auto removed = co_await remove_object(operation, *std::move(move.target));
    co_return removed;
  }
  auto dropped = co_await drop_link(operation, *move.target, move.to.directory);
  co_return dropped;
}

}  // namespace

Outcome<wire::RenameReply> rename(Operation& operation, const wire::RenameRequest& request) {
  SPATE_CO_TRY(std::ignore, check_flags(request.flags));
  Move move;
  move.exchange = (request.flags & wire::kRenameExchange) != 0;
  SPATE_CO_TRY(std::ignore, co_await find_places(operation, request, move));
  SPATE_CO_TRY(std::ignore, co_await read_both(operation, move));
  if (move.exchange && !move.target) co_return Errc::kNotFound;
  if (move.target && (request.flags & wire::kRenameNoReplace) != 0) co_return Errc::kExists;
  SPATE_CO_TRY(std::ignore, check_slashes(move));
  SPATE_CO_TRY(std::ignore, co_await check_no_loop(operation, move));
  if (move.target && move.target->handle() == move.object.handle()) co_return wire::RenameReply{};
  SPATE_CO_TRY(std::ignore, co_await check_not_above(operation, move));
  SPATE_CO_TRY(std::ignore, check_rights(operation.who(), move));
  SPATE_CO_TRY(std::ignore, check_replaceable(move));
  if (move.exchange) {
    exchange(operation, move);
  } else {
    SPATE_CO_TRY(std::ignore, co_await replace(operation, move));
  }
  co_return wire::RenameReply{};
}

}  // namespace spate::meta
