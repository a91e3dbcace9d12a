// SPDX-License-Identifier: Apache-2.0
// create: makes a regular file, and may open it; or makes a fifo, socket or device node.
#include <algorithm>

#include "server/meta/core/core.h"
#include "server/meta/core/reply.h"
#include "server/meta/names/layout_choice.h"
#include "server/meta/names/mirror_choice.h"
#include "server/meta/names/objects.h"
#include "server/meta/names/operations.h"
#include "server/meta/store/access.h"

namespace spate::meta {
namespace {

constexpr std::uint8_t kRights = wire::kOpenRead | wire::kOpenWrite;

Result<void> check_request(const Credential& who, const wire::CreateRequest& request) {
  if (!wire::fit_create(request.open_flags)) {
    return Error::told(
        Errc::kInvalidArgument,
        "create: a temporary file must be opened for writing; unknown open flags and by_user are refused");
  }
  switch (request.type) {
    case FileType::kRegular: return {};
    case FileType::kFifo:
    case FileType::kSocket: break;
    case FileType::kCharDevice:
    case FileType::kBlockDevice:
      if (!is_root(who)) return Errc::kNotPermitted;
      break;
    default:
      return Error::told(Errc::kInvalidArgument, "create: the type must be a regular file, fifo, socket or device");
  }
  if ((request.open_flags & ~wire::kOpenExclusive) != 0)
    return Error::told(Errc::kInvalidArgument, "create: open flags are allowed for regular files only");
  return {};
}

/// A user may write what a root session creates or opens for that user.
std::uint8_t open_flags_of(const wire::CreateRequest& request) {
  const bool for_user =
      (request.attributes.mode & wire::NewAttributes::kOnBehalf) != 0 && request.attributes.uid.value_or(0) != 0;
  const unsigned flags = request.open_flags & ~unsigned{wire::kOpenDistribution};
  return static_cast<std::uint8_t>(flags | (for_user ? wire::kOpenByUser : 0));
}

/// The errors for a path that does not end with a new name.
Result<void> check_place(const wire::CreateRequest& request, const PathEnd& place) {
  const bool opens = request.type == FileType::kRegular && (request.open_flags & wire::kOpenExclusive) == 0;
  if (place.last != PathEnd::Last::kName) return opens ? Errc::kIsDirectory : Errc::kExists;
  if (place.slash) return opens ? Errc::kIsDirectory : Errc::kNotFound;
  return {};
}

/// Makes the object and opens it as asked. It has no entry yet. `name`: empty if it gets none.
Outcome<InodeRecord> make_opened(Operation& operation, const wire::CreateRequest& request, const InodeRecord& directory,
                                 std::string_view name, wire::CreateReply& reply) {
  const NewObject params{request.type, request.attributes, name};
  SPATE_CO_TRY(InodeRecord object, co_await make_object(operation, directory, params));
  MetaCore& core = operation.core();
  if (object.is_regular()) {
    const LayoutDefaults defaults{core.options().strip_bytes, core.options().strip_count, core.membership().targets()};
    const std::uint64_t base = core.next_base();
    SPATE_CO_TRY(object.layout, choose_layout(request.layout, directory.hints, defaults, base));
    Copies copies;
    copies.replicas = directory.hints.replicas.value_or(core.options().replicas);
    copies.min = std::min(directory.hints.min_copies.value_or(core.options().min_copies), copies.replicas);
    if (copies.replicas > 1 || names_groups(*object.layout)) {
      SPATE_CO_TRY(std::ignore, mirror(operation, *object.layout, copies, base / defaults.targets.size()));
    }
  } else {
    object.attributes.device = request.device;
  }
  reply.created = true;
  if ((request.open_flags & kRights) != 0) {
    SPATE_CO_TRY(reply.capability, co_await core.parts().opens->add(operation, object, open_flags_of(request), true));
  }
  co_return object;
}

Outcome<wire::CreateReply> create_new(Operation& operation, const wire::CreateRequest& request, NamedEntry& named,
                                      const std::string& name) {
  wire::CreateReply reply;
  SPATE_CO_TRY(const InodeRecord object, co_await make_opened(operation, request, named.directory, name, reply));
  SPATE_CO_TRY(std::ignore, add_object(operation, named, name, object));
  reply.object = object_reply(object);
  co_return reply;
}

/// O_TMPFILE: the last close removes the file, unless it has got a name (link.cc).
Outcome<wire::CreateReply> create_temporary(Operation& operation, const wire::CreateRequest& request) {
  SPATE_CO_TRY(const InodeRecord directory, co_await walk(operation, request.where));
  if (!directory.is_directory()) co_return Errc::kNotDirectory;
  if (!may(operation.who(), directory, kWantWrite | kWantExecute)) co_return Errc::kPermissionDenied;
  wire::CreateReply reply;
  SPATE_CO_TRY(InodeRecord object, co_await make_opened(operation, request, directory, {}, reply));
  object.attributes.link_count = 0;
  object.may_be_named((request.open_flags & wire::kOpenExclusive) == 0);
  operation.put(object);
  reply.object = object_reply(object);
  co_return reply;
}

}  // namespace

Outcome<wire::CreateReply> create(Operation& operation, const wire::CreateRequest& request) {
  SPATE_CO_TRY(std::ignore, check_request(operation.who(), request));
  if ((request.open_flags & wire::kOpenTemporary) != 0) {
    auto made = co_await create_temporary(operation, request);
    co_return made;
  }
  const bool exclusive = (request.open_flags & wire::kOpenExclusive) != 0 || request.type != FileType::kRegular;
  const bool follow = !exclusive && (request.where.flags & wire::NamePath::kFollowLast) != 0;
  Walker walker(operation, request.where);
  for (;;) {
    SPATE_CO_TRY(const PathEnd place, co_await walker.to_last());
    if (place.last != PathEnd::Last::kName) co_return check_place(request, place).error();
    // As on Linux, the slash is checked first, whether the object exists or not.
    if (place.slash && (request.open_flags & kRights) != 0) co_return Errc::kIsDirectory;
    SPATE_CO_TRY(NamedEntry named, co_await entry_for_change(operation, place));
    if (!named.entry) {
      SPATE_CO_TRY(std::ignore, check_place(request, place));
      auto reply = co_await create_new(operation, request, named, place.name);
      co_return reply;
    }
    if (exclusive) co_return Errc::kExists;
    const EntryRecord entry = *named.entry;
    SPATE_CO_TRY(InodeRecord object, co_await inode_of(operation, entry, trove::ReadMode::kChecked));
    if (object.is_symlink() && follow) {
      SPATE_CO_TRY(std::ignore, walker.follow(place, object));
      continue;
    }
    if (object.is_symlink()) co_return Errc::kSymlinkLoop;
    if (object.is_directory()) co_return Errc::kIsDirectory;
    if (place.slash) co_return Errc::kNotDirectory;
    auto opened =
        co_await operation.core().parts().opens->open_existing(operation, std::move(object), open_flags_of(request));
    co_return opened;
  }
}

}  // namespace spate::meta
