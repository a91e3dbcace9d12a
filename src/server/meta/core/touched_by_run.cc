// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/touched_by_run.h"

#include <algorithm>

#include "server/meta/core/reply.h"
#include "server/meta/store/access.h"
#include "server/meta/store/keys.h"

namespace spate::meta {
namespace {

constexpr std::uint64_t kKeepsWhatItChanges = wire::kFeatureLeases | wire::kFeatureGrants;

}  // namespace

TouchedByRun::TouchedByRun(const rpc::Peer& caller, bool changes)
    : caller_(caller), caller_keeps_(changes && (caller.features & kKeepsWhatItChanges) == kKeepsWhatItChanges) {}

void TouchedByRun::begin() {
  touched_ = wire::Touched{true, {}, {}};
  written_.objects.clear();
  written_.names.clear();
  removed_.clear();
  open_for_writing_.clear();
  opened_ = Handle();
}

void TouchedByRun::note_key(ByteView key, bool erased) {
  ++keys_;
  const auto kind = static_cast<KeyKind>(key[0]);
  if (kind != KeyKind::kInode && kind != KeyKind::kEntry) return;
  const Handle object(parse_id_key(key).value_or(0));
  if (kind == KeyKind::kInode && erased) removed_.push_back(object);
  auto& objects = touched_.objects;
  if (std::find(objects.begin(), objects.end(), object) == objects.end()) objects.push_back(object);
}

void TouchedByRun::note_inode(const InodeRecord& inode) {
  if (!caller_keeps_) return;
  const auto is_it = [&](const wire::GrantedObject& one) { return one.object.attributes.handle == inode.handle(); };
  std::erase_if(written_.objects, is_it);
  wire::GrantedObject& written = written_.objects.emplace_back();
  written.object = object_reply(inode);
  std::erase(open_for_writing_, inode.handle());
  if (inode.write_opens > 0) open_for_writing_.push_back(inode.handle());
  if (!inode.is_directory()) return;
  if (check_searchable(caller_.credential, inode)) written.flags |= wire::GrantedObject::kSearchable;
  if (may_be_delegated(inode)) written.flags |= wire::GrantedObject::kDelegated;
  if (inode.entries_version == InodeRecord().entries_version) written.flags |= wire::GrantedObject::kNeverUsed;
}

/// A client computes attributes of what it makes in such a directory without knowing more than the mode.
bool TouchedByRun::may_be_delegated(const InodeRecord& directory) const {
  const Attributes& a = directory.attributes;
  const bool owns = caller_.credential.uid == a.uid || is_root(caller_.credential);
  const bool plain = (a.mode & (kSetGid | kSticky)) == 0 && directory.acl.empty() && directory.default_acl.empty();
  return (caller_.features & wire::kFeatureDelegates) != 0 && owns && plain && !caller_.is_confined();
}

void TouchedByRun::note_entry(Handle directory, std::string_view name, const EntryRecord& record) {
  touched_.names.push_back({directory, std::string(name)});
  if (caller_keeps_) written_.names.push_back({directory, std::string(name), record.handle, record.type});
}

bool TouchedByRun::leaves_open_for_writing(Handle file) const {
  return std::find(open_for_writing_.begin(), open_for_writing_.end(), file) != open_for_writing_.end();
}

bool TouchedByRun::removes(Handle object) const {
  return std::find(removed_.begin(), removed_.end(), object) != removed_.end();
}

}  // namespace spate::meta
