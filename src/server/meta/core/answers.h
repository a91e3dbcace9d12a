// SPDX-License-Identifier: Apache-2.0
// AnswerTable: keeps the answer to the last request of each slot of each client (docs/consistency.md, "Resends").
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "job/semaphore.h"
#include "server/meta/core/parts.h"

namespace spate::meta {

/// The answers are in the store, one record for each slot; the slot's next request overwrites it. Memory holds only
/// each slot's last sequence, so that a new request costs no read. One executor; pinned. Source: RFC 8881 (NFSv4.1),
/// sec. 2.10.6, "Exactly Once Semantics": slots, sequences, a bounded reply cache.
///
/// Life cycle of a client: its first enter() -> requests -> forget(), when its session has ended -> its later requests
/// fail with kSessionUnknown while forget() runs, and the session table refuses them afterwards. The table outlives all
/// Turns. Nothing of it must be saved: a new process reads the store.
class AnswerTable final : public Answers {
 public:
  /// `slots`: how many each client may use.
  AnswerTable(job::KeyvalContext& store, std::uint16_t slots) : store_(store), slots_(slots) {}

  /// Fails with kInvalidArgument for a slot that the client was not given, and with kSessionUnknown after forget().
  job::Task<Result<Turn>> enter(const rpc::Call& call) override;
  job::Task<Result<std::optional<AnswerRecord>>> find(job::Transaction& store, const rpc::Call& call) override;
  void remember(job::Transaction& store, const rpc::Call& call, const Result<Bytes>& answer, Handle truncates) override;
  void confirm(const rpc::Call& call) override;

  /// Called when the client will never ask again. Waits for its requests under way, then drops all of its answers.
  /// Repeatable.
  job::Task<Result<void>> forget(ClientId client, job::StopToken stop);

  /// Clients with requests since the start; for tests.
  std::size_t size() const { return clients_.size(); }

 private:
  struct RequestSlot {
    explicit RequestSlot(job::Executor& executor) : turn(executor, 1) {}
    job::Semaphore turn;
    std::uint64_t last = 0;
    bool known = false;  // `last` agrees with the store
  };
  struct Client {
    std::vector<std::unique_ptr<RequestSlot>> slots;  // grows with use: clients take the lowest free slot
    bool forgotten = false;
  };

  Client& client(ClientId id);
  RequestSlot& slot_of(const rpc::Call& call);
  job::Task<Result<bool>> erase_some(ClientId client);

  job::KeyvalContext& store_;
  const std::uint16_t slots_;
  std::unordered_map<ClientId, std::unique_ptr<Client>> clients_;
};

}  // namespace spate::meta
