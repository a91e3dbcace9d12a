// SPDX-License-Identifier: Apache-2.0
// AnswerTable: keeps the answer to the last request of each slot of each client (docs/consistency.md, "Resends").
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "job/semaphore.h"
#include "job/storage.h"
#include "job/task.h"
#include "rpc/call.h"
#include "server/meta/store/records.h"

namespace spate::meta {

/// The answers are in the store, one record for each slot; the slot's next request overwrites it. Memory holds only
/// each slot's last sequence, so that a new request costs no read. One executor; pinned. Source: RFC 8881 (NFSv4.1),
/// sec. 2.10.6, "Exactly Once Semantics": slots, sequences, a bounded reply cache.
///
/// For each request: enter() -> for each run of the operation: find(); if there is no answer, remember() in the run's
/// transaction -> confirm() after the commit -> the Turn is destroyed. A Turn that is destroyed without confirm() is
/// safe at any point: the next request of the slot asks the store what was committed.
///
/// Life cycle of a client: its first enter() -> requests -> forget(), when its session has ended -> its later requests
/// fail with kSessionUnknown while forget() runs, and the session table refuses them afterwards. The table outlives all
/// Turns. Nothing of it must be saved: a new process reads the store.
class AnswerTable {
 public:
  /// The right to run a request of one slot. While it is held, other requests of that slot wait.
  using Turn = job::Semaphore::Units;
  /// `slots`: how many each client may use.
  AnswerTable(job::KeyvalContext& store, std::uint16_t slots) : store_(store), slots_(slots) {}

  /// Fails with kInvalidArgument for a slot that the client was not given, and with kSessionUnknown after forget().
  job::Task<Result<Turn>> enter(const rpc::Call& call);
  /// The earlier answer to this request; nothing when the request is new. Fails with kForgottenRequest for an older
  /// sequence than the slot's last.
  job::Task<Result<std::optional<AnswerRecord>>> find(job::Transaction& store, const rpc::Call& call);
  /// Puts the answer (an encoded reply or an error) in the transaction. `truncates`: AnswerRecord's.
  void remember(job::Transaction& store, const rpc::Call& call, const Result<Bytes>& answer, Handle truncates);
  /// Call it after the transaction of the last remember() was committed. Without this call the next request reads the
  /// store.
  void confirm(const rpc::Call& call);

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
