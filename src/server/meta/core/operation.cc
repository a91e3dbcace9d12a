// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/operation.h"

#include <algorithm>

#include "server/meta/core/name_filter.h"
#include "server/meta/core/parts.h"

namespace spate::meta {

Result<void> check_knows(const rpc::Peer& peer, const Layout& layout) {
  const bool client = peer.kind == wire::PeerKind::kClient && peer.client;  // no client has sent an internal change
  if (layout.redundancy == Redundancy::kNone || !client || (peer.features & wire::kFeatureMirrors) != 0) return {};
  return Error::told(Errc::kNotSupported,
                     "the file's data is mirrored, which this client does not know: it needs a newer version of Spate");
}

Operation::Operation(MetaCore& core, const OperationParts& parts, rpc::Call& call, Kind kind)
    : core_(core),
      parts_(parts),
      call_(call),
      kind_(kind),
      met_(*this, parts.meta),
      confinement_(call.peer->is_confined() ? std::make_unique<Confinement>(call) : nullptr),
      locks_(parts.locks),
      incarnation_(call.peer->incarnation),
      changes_(*call.peer, kind == Kind::kChange) {}

void Operation::begin() {
  deferred_.begin();
  wanted_locks_.clear();
  changes_.begin();
  if (confinement_ != nullptr) confinement_->begin();
  store_.reset();
  store_.emplace(parts_.store.begin());
  made_.begin(parts_.store.executor().clock().wall());
  met_.begin();
}

void Operation::put_raw(ByteView key, ByteView value) {
  if (confinement_ != nullptr) confinement_->note_change(key);
  changes_.note_key(key, false);
  store().put(key, value);
}

void Operation::erase(ByteView key) {
  if (confinement_ != nullptr) confinement_->note_change(key);
  changes_.note_key(key, true);
  store().erase(key);
}

job::Task<Result<InodeRecord>> Operation::inode(Handle handle, trove::ReadMode mode, Reach reach) {
  SPATE_CO_TRY(auto found, co_await get<InodeRecord>(inode_key(handle), mode));
  if (met_.meet(handle)) co_return Errc::kConflict;
  if (!found) co_return Errc::kStaleHandle;
  if (confinement_ != nullptr) {
    SPATE_CO_TRY(std::ignore, co_await confinement_->admit(store(), *found, reach));
  }
  if (found->layout) {
    SPATE_CO_TRY(std::ignore, check_knows(*call_.peer, *found->layout));
  }
  co_return *std::move(found);
}

job::Task<Result<std::optional<EntryRecord>>> Operation::entry(Handle directory, std::string name,
                                                               trove::ReadMode mode) {
  const std::uint64_t hash = parts_.name_hash(name);
  if (met_.meet(directory)) co_return Errc::kConflict;
  const StoreKey key = entry_key(directory, hash, name);
  std::optional<EntryRecord> found;
  if (parts_.name_filter.never_had(directory, hash)) {
    if (kind_ == Kind::kChange && mode == trove::ReadMode::kChecked) store().note_read(key);
  } else {
    SPATE_CO_TRY(found, co_await get<EntryRecord>(key, mode));
  }
  if (confinement_ != nullptr) {
    SPATE_CO_TRY(std::ignore, co_await confinement_->admit_name(store(), directory, found));
  }
  co_return found;
}

void Operation::put_entry(Handle directory, std::string_view name, const EntryRecord& record) {
  changes_.note_entry(directory, name, record);
  const std::uint64_t hash = parts_.name_hash(name);
  parts_.name_filter.added(directory, hash);
  put(entry_key(directory, hash, name), record);
}

void Operation::erase_entry(Handle directory, std::string_view name) {
  changes_.note_entry(directory, name, EntryRecord{Handle(), FileType::kRegular});
  erase(entry_key(directory, parts_.name_hash(name), name));
}

void Operation::begin_changes() {
  std::vector<Handle> objects = changes_.touched().objects;
  if (changes_.opened_for_reading()) objects.push_back(changes_.opened_for_reading());
  for (const Handle object : objects) {
    if (std::find(changing_.begin(), changing_.end(), object) != changing_.end()) continue;
    changing_.push_back(object);
    parts_.meta.leases->begin_change(object);
  }
}

void Operation::end_changes(bool committed) {
  for (const Handle object : changing_) {
    parts_.meta.leases->end_change(object, committed && changes_.removes(object));
  }
  changing_.clear();
}

Result<void> Operation::lock(std::vector<Handle> directories) {
  if (confinement_ != nullptr) {
    const auto may_lock = [this](Handle object) { return object == kRenameLock || confinement_->knows(object); };
    if (!std::ranges::all_of(directories, may_lock)) return Errc::kPermissionDenied;
  }
  if (locks_.try_take(directories)) return {};
  // Asks for the held locks, too, because the next run may need all of them in another order.
  wanted_locks_ = locks_.handles();
  wanted_locks_.insert(wanted_locks_.end(), directories.begin(), directories.end());
  return Errc::kConflict;
}

}  // namespace spate::meta
