// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/operation.h"

#include <algorithm>

#include "server/meta/core/core.h"
#include "server/meta/core/reply.h"
#include "server/meta/core/walk.h"

namespace spate::meta {

Operation::Operation(MetaCore& core, rpc::Call& call, Kind kind)
    : core_(core), call_(call), kind_(kind), locks_(core.locks()), incarnation_(call.peer->incarnation) {}

void Operation::begin() {
  committed_.clear();
  finish_ = {};
  wait_ = {};
  answer_.reset();
  truncates_ = Handle();
  wanted_locks_.clear();
  objects_made_ = 0;
  touched_ = wire::Touched{true, {}, {}};
  written_.objects.clear();
  written_.names.clear();
  removed_.clear();
  store_.reset();
  store_.emplace(core_.store().begin());
  now_ = core_.clock().wall();
}

job::Task<Result<InodeRecord>> Operation::inode(Handle handle, trove::ReadMode mode) {
  auto found = co_await get<InodeRecord>(inode_key(handle), mode);
  if (!found) co_return std::move(found).error();
  if (!*found) co_return Errc::kStaleHandle;
  co_return **std::move(found);
}

job::Task<Result<std::optional<EntryRecord>>> Operation::entry(Handle directory, std::string name,
                                                               trove::ReadMode mode) {
  const std::uint64_t hash = core_.name_hash()(name);
  const StoreKey key = entry_key(directory, hash, name);
  if (core_.name_filter().never_had(directory, hash)) {
    if (kind_ == Kind::kChange && mode == trove::ReadMode::kChecked) store().note_read(key);
    co_return std::optional<EntryRecord>();
  }
  auto found = co_await get<EntryRecord>(key, mode);
  co_return found;
}

void Operation::put_entry(Handle directory, std::string_view name, const EntryRecord& record) {
  touched_.names.push_back({directory, std::string(name)});
  note_name(directory, name, record);
  const std::uint64_t hash = core_.name_hash()(name);
  core_.name_filter().added(directory, hash);
  put(entry_key(directory, hash, name), record);
}

void Operation::erase_entry(Handle directory, std::string_view name) {
  touched_.names.push_back({directory, std::string(name)});
  note_name(directory, name, EntryRecord{Handle(), FileType::kRegular});
  erase(entry_key(directory, core_.name_hash()(name), name));
}

bool Operation::client_keeps() const {
  constexpr std::uint64_t kBoth = wire::kFeatureLeases | wire::kFeatureGrants;
  return kind_ == Kind::kChange && (call_.peer->features & kBoth) == kBoth;
}

void Operation::note_name(Handle directory, std::string_view name, const EntryRecord& record) {
  if (client_keeps()) written_.names.push_back({directory, std::string(name), record.handle, record.type});
}

/// The last that is put of an inode counts.
void Operation::note_written(const InodeRecord& inode) {
  if (!client_keeps()) return;
  const auto is_it = [&](const wire::GrantedObject& one) { return one.object.attributes.handle == inode.handle(); };
  std::erase_if(written_.objects, is_it);
  wire::GrantedObject& written = written_.objects.emplace_back();
  written.object = object_reply(inode);
  if (!inode.is_directory()) return;
  if (check_searchable(who(), inode)) written.flags |= wire::GrantedObject::kSearchable;
  if (inode.entries_version == InodeRecord().entries_version) written.flags |= wire::GrantedObject::kNeverUsed;
}

bool Operation::removes(Handle object) const {
  return std::find(removed_.begin(), removed_.end(), object) != removed_.end();
}

/// Leases are on objects: an entry's is its directory's.
void Operation::note_touched(ByteView key, bool removes) {
  const auto kind = static_cast<KeyKind>(key[0]);
  if (kind != KeyKind::kInode && kind != KeyKind::kEntry) return;
  const Handle object(parse_id_key(key).value_or(0));
  if (kind == KeyKind::kInode && removes) removed_.push_back(object);
  auto& objects = touched_.objects;
  if (std::find(objects.begin(), objects.end(), object) == objects.end()) objects.push_back(object);
}

void Operation::begin_changes() {
  for (const Handle object : touched_.objects) {
    if (std::find(changing_.begin(), changing_.end(), object) != changing_.end()) continue;
    changing_.push_back(object);
    core_.parts().leases->begin_change(object);
  }
}

void Operation::end_changes(bool committed) {
  for (const Handle object : changing_) {
    core_.parts().leases->end_change(object, committed && removes(object));
  }
  changing_.clear();
}

Result<void> Operation::lock(std::vector<Handle> directories) {
  if (locks_.try_take(directories)) return {};
  // With what it has: the next run may want all of it, in another order.
  wanted_locks_ = locks_.handles();
  wanted_locks_.insert(wanted_locks_.end(), directories.begin(), directories.end());
  return Errc::kConflict;
}

}  // namespace spate::meta
