// SPDX-License-Identifier: Apache-2.0
// RevokedKeys: the users' keys that the operator has revoked (docs/security.md, "Keys of users").
#pragma once

#include <functional>
#include <set>
#include <vector>

#include "job/semaphore.h"
#include "job/storage.h"
#include "server/meta/store/records.h"

namespace spate::meta {

/// A list in the store, so that it survives restarts and is that of every meta server of a group. It never shrinks: a
/// key that was revoked stays so. One executor; pinned. Life cycle: construct -> start() awaited -> the other calls.
class RevokedKeys {
 public:
  explicit RevokedKeys(job::KeyvalContext& store) : store_(store), turn_(store.executor(), 1) {}
  RevokedKeys(const RevokedKeys&) = delete;
  RevokedKeys& operator=(const RevokedKeys&) = delete;

  job::Task<Result<void>> start();
  /// Called at start() and with each change, with all ids.
  void on_change(std::function<void(std::set<KeyId>)> listener) { listener_ = std::move(listener); }

  bool contains(const KeyId& id) const { return ids_.contains(id); }
  const std::vector<wire::RevokedKey>& list() const { return record_.keys; }
  /// Adds these keys, durably. Repeatable. kInvalidArgument: an id that no key has. kOutOfRange: the list is full.
  job::Task<Result<void>> add(std::vector<KeyId> ids, job::StopToken stop);

 private:
  void use(RevokedKeysRecord record);

  job::KeyvalContext& store_;
  RevokedKeysRecord record_;
  std::set<KeyId> ids_;
  job::Semaphore turn_;  // changes run one after another
  std::function<void(std::set<KeyId>)> listener_;
};

}  // namespace spate::meta
