// SPDX-License-Identifier: Apache-2.0
// RevokedKeys: the users' keys that the operator has revoked (docs/security.md, "Keys of users").
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <vector>

#include "job/semaphore.h"
#include "job/storage.h"
#include "server/meta/store/records.h"

namespace spate::meta {

struct Revocation {
  KeyId id{};
  WallTime until;  // the key's own end; 0: none, or not known
};

/// The list is in the store, so that it survives restarts and every meta server of a group has it. A key stays revoked
/// until its own end. The list forgets it kKept later, when the next key is revoked. One executor; pinned. Life cycle:
/// construct -> start() awaited -> the other calls.
class RevokedKeys {
 public:
  /// A server that takes over may have a clock that is behind, and must not accept a revoked key again.
  static constexpr std::chrono::hours kKept{24};

  explicit RevokedKeys(job::KeyvalContext& store) : store_(store), turn_(store.executor(), 1) {}
  RevokedKeys(const RevokedKeys&) = delete;
  RevokedKeys& operator=(const RevokedKeys&) = delete;

  job::Task<Result<void>> start();
  /// Called at start() and with each change, with all ids.
  void on_change(std::function<void(std::set<KeyId>)> listener) { listener_ = std::move(listener); }

  bool contains(const KeyId& id) const { return ids_.contains(id); }
  const std::vector<wire::RevokedKey>& list() const { return record_.keys; }
  /// Adds these keys, durably. Repeatable, also to add the end of a key; of two ends the later one counts.
  /// kInvalidArgument: an id that no key has. kOutOfRange: the list is full.
  job::Task<Result<void>> add(std::vector<Revocation> keys, job::StopToken stop);

 private:
  void use(RevokedKeysRecord record);

  job::KeyvalContext& store_;
  RevokedKeysRecord record_;
  std::set<KeyId> ids_;
  job::Semaphore turn_;  // changes run one after another
  std::function<void(std::set<KeyId>)> listener_;
};

}  // namespace spate::meta
