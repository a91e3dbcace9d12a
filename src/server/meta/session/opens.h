// SPDX-License-Identifier: Apache-2.0
// OpenTable: which session has which file open (docs/consistency.md, "Sessions").
#pragma once

#include <map>
#include <unordered_map>

#include "server/meta/core/core.h"
#include "server/meta/core/operation.h"

namespace spate::meta {

/// The records in the store decide. Memory holds only which files to examine when a session ends. One executor; pinned.
/// Life cycle: construct -> start() awaited -> used by operations.
class OpenTable final : public Opens {
 public:
  explicit OpenTable(MetaCore& core) : core_(core) {}

  /// Reads all open records of the store.
  job::Task<Result<void>> start();

  job::Task<Result<Capability>> add(Operation& operation, InodeRecord& inode, std::uint8_t open_flags,
                                    bool fresh) override;
  job::Task<Result<wire::OpenReply>> open_existing(Operation& operation, InodeRecord inode,
                                                   std::uint8_t open_flags) override;
  job::Task<Result<wire::OpenReply>> renew(Operation& operation, InodeRecord inode, std::uint8_t open_flags) override;
  job::Task<Result<void>> drop(Operation& operation, Handle handle, Rights rights) override;
  bool may_be_open(Handle handle) const override { return files_.contains(handle); }
  void dropped(ClientId client, Handle handle) override;

  /// Ends all opens of the client's epochs below this one, which the caller has fenced. Repeatable.
  job::Task<Result<void>> release(ClientId client, std::uint32_t below_epoch, job::StopToken stop);
  /// False: the session has nothing open, and no operation under way opens anything for it.
  bool holds_any(ClientId client) const { return held_.contains(client); }
  std::vector<ClientId> holders() const;

 private:
  class Hint;
  void count(ClientId client, Handle handle, int difference);
  Capability capability_for(Operation& operation, const InodeRecord& inode, Rights rights);
  job::Task<Result<void>> release_file(Operation& operation, ClientId client, std::uint32_t below_epoch, Handle handle);

  MetaCore& core_;
  /// For each client and file: how many open records (of different epochs) exist or may be about to exist.
  std::unordered_map<ClientId, std::map<Handle, int>> held_;
  /// The same for all clients together.
  std::unordered_map<Handle, int> files_;
};

/// The rights that open flags ask for.
Rights rights_of(std::uint8_t open_flags);

/// Fails with kSessionUnknown or kSessionFenced unless this epoch of the client's session is open. The end of a session
/// changes its record, so if the operation and the session's end overlap, one of the two transactions sees the other.
inline job::Task<Result<void>> check_open(Operation& operation, ClientId client, std::uint32_t epoch) {
  SPATE_CO_TRY(const auto session, co_await operation.get<SessionRecord>(session_key(client)));
  if (!session) co_return Errc::kSessionUnknown;
  const bool current = session->state == SessionState::kOpen && session->epoch == epoch;
  co_return current ? Result<void>() : Errc::kSessionFenced;
}

}  // namespace spate::meta
