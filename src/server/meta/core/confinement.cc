// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/confinement.h"

#include <algorithm>

#include "server/meta/core/read_record.h"

namespace spate::meta {
namespace {

using trove::ReadMode;

/// Objects that are deeper below the key's directory are refused. No path of a system call has so many components.
constexpr std::size_t kDeepestInside = 4096;
/// Handles of one chain that are remembered, from the object upwards.
constexpr std::size_t kMostRemembered = 64;

/// One answer for everything that is outside, whether it is there or not.
Error outside() {
  return Error::told(Errc::kPermissionDenied, "permission denied: the user's key is confined to another directory");
}

job::Task<Result<std::optional<InodeRecord>>> inode_at(job::Transaction& store, Handle handle) {
  return read_record<InodeRecord>(store, inode_key(handle), ReadMode::kSnapshot);
}

/// Whether the records of this kind belong to the object whose handle follows in the key.
bool is_of_object(ByteView key) {
  switch (static_cast<KeyKind>(key[0])) {
    case KeyKind::kInode:
    case KeyKind::kEntry:
    case KeyKind::kXattr:
    case KeyKind::kOpen:
    case KeyKind::kRemoval:
    case KeyKind::kTruncate:
    case KeyKind::kUnsettled: return true;
    default: return false;
  }
}

}  // namespace

void Confinement::begin() {
  inside_.clear();
  opened_.clear();
  way_.reset();
  changed_.clear();
  beyond_ = false;
}

job::Task<Result<bool>> Confinement::is_below(job::Transaction& store, const InodeRecord& inode) {
  std::vector<Handle> chain;
  Handle parent = inode.parent;
  for (Handle at = inode.handle(); at != root_ && !inside_.contains(at);) {
    chain.push_back(at);
    if (at == kRootHandle || !parent || chain.size() > kDeepestInside) co_return false;
    at = parent;
    if (at == root_) break;
    SPATE_CO_TRY(const auto above, co_await inode_at(store, at));
    if (!above || !above->is_directory()) co_return false;
    parent = above->parent;
  }
  chain.resize(std::min(chain.size(), kMostRemembered));
  inside_.insert(chain.begin(), chain.end());
  inside_.insert(root_);
  co_return true;
}

job::Task<Result<bool>> Confinement::is_open(job::Transaction& store, Handle handle) const {
  const StoreKey key = open_key(handle, call_.header.client, call_.header.session_epoch);
  SPATE_CO_TRY(const auto record, co_await read_record<OpenRecord>(store, key, ReadMode::kSnapshot));
  co_return record.has_value();
}

job::Task<Result<void>> Confinement::find_way(job::Transaction& store) {
  if (way_) co_return {};
  std::vector<Step> way;
  for (Handle at = root_; at != kRootHandle;) {
    SPATE_CO_TRY(const auto inode, co_await inode_at(store, at));
    const bool leads_on = inode && inode->is_directory() && way.size() <= kDeepest;
    if (!leads_on) {
      way.clear();  // the key's directory was removed: nothing leads to it
      break;
    }
    way.push_back({inode->parent, at});
    at = inode->parent;
  }
  way_ = std::move(way);
  co_return {};
}

const Confinement::Step* Confinement::step_at(Handle directory) const {
  for (const Step& step : *way_) {
    if (step.directory == directory) return &step;
  }
  return nullptr;
}

job::Task<Result<void>> Confinement::admit(job::Transaction& store, const InodeRecord& inode, Reach reach) {
  if (knows(inode.handle())) co_return {};
  SPATE_CO_TRY(const bool below, co_await is_below(store, inode));
  if (below) co_return {};
  if (!inode.is_directory()) {
    SPATE_CO_TRY(const bool open, co_await is_open(store, inode.handle()));
    if (open) opened_.insert(inode.handle());
    co_return open ? Result<void>() : outside();
  }
  if (reach == Reach::kInside) co_return outside();
  SPATE_CO_TRY(std::ignore, co_await find_way(store));
  co_return step_at(inode.handle()) != nullptr ? Result<void>() : outside();
}

job::Task<Result<void>> Confinement::admit(job::Transaction& store, Handle handle, Reach reach) {
  if (knows(handle)) co_return {};
  SPATE_CO_TRY(const auto inode, co_await inode_at(store, handle));
  if (!inode) co_return {};
  const InodeRecord found = *inode;
  auto admitted = co_await admit(store, found, reach);
  co_return admitted;
}

job::Task<Result<void>> Confinement::admit_name(job::Transaction& store, Handle directory,
                                                const std::optional<EntryRecord>& entry) {
  if (inside_.contains(directory)) co_return {};
  SPATE_CO_TRY(const auto inode, co_await inode_at(store, directory));
  if (!inode) co_return outside();
  const InodeRecord found = *inode;
  SPATE_CO_TRY(std::ignore, co_await admit(store, found, Reach::kOnTheWay));
  if (inside_.contains(directory)) co_return {};
  SPATE_CO_TRY(std::ignore, co_await find_way(store));
  const Step* const step = step_at(directory);
  co_return step != nullptr&& entry && entry->handle == step->next ? Result<void>() : outside();
}

job::Task<Result<void>> Confinement::admit_all(job::Transaction& store, std::vector<Handle> handles) {
  for (const Handle handle : handles) {
    SPATE_CO_TRY(std::ignore, co_await admit(store, handle, Reach::kOnTheWay));
  }
  co_return {};
}

job::Task<Result<bool>> Confinement::still_holds(job::Transaction& now) const {
  Confinement again(call_);
  for (const Handle object : changed_) {
    const auto admitted = co_await again.admit(now, object, Reach::kInside);
    if (admitted.code() == Errc::kPermissionDenied) co_return false;
    if (!admitted) co_return admitted.error();
  }
  co_return true;
}

void Confinement::note_change(ByteView key) {
  if (!is_of_object(key)) return;
  const Handle object(parse_id_key(key).value_or(0));
  changed_.insert(object);
  // An object that is only open has no names to be changed.
  const bool may = static_cast<KeyKind>(key[0]) == KeyKind::kEntry ? inside_.contains(object) : knows(object);
  beyond_ = beyond_ || !may;
}

}  // namespace spate::meta
