// SPDX-License-Identifier: Apache-2.0
// ChangeBatcher: changes of several tasks of one client, sent to the meta server in one request.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/unique_function.h"
#include "client/session/change_reply.h"
#include "client/session/limits.h"
#include "job/event.h"
#include "job/gate.h"
#include "rpc/channel.h"
#include "wire/batch_messages.h"

namespace spate::client {

/// Sends a change at once while few changes are in flight. Otherwise the change waits until one of these is answered,
/// and then goes together with other waiting ones. If no answer comes for long, the waiting changes go all the same. So
/// one task is as fast as without batches, and changes of many tasks share one transaction of the server (group
/// commit). One executor; must not move. Every send() has ended when this object is destroyed.
class ChangeBatcher {
 public:
  /// Sends one change with a request id of its own, and again in a new session where that is allowed.
  using SendOne = UniqueFunction<job::Task<Result<rpc::RawReply>>(wire::Op op, ByteView body, Limits limits,
                                                                  std::uint32_t reply_room)>;
  struct Counters {
    std::uint64_t batches = 0;  // batches of two or more changes
    std::uint64_t batched = 0;  // changes in these batches
  };

  /// `gate`: for tasks that wait for batches. It outlives this object and is closed first. `stop` ends their waits.
  ChangeBatcher(job::Executor& executor, job::Gate& gate, job::StopToken stop, SendOne send_one)
      : executor_(executor), gate_(gate), stop_(stop), send_one_(std::move(send_one)) {}
  ChangeBatcher(const ChangeBatcher&) = delete;
  ChangeBatcher& operator=(const ChangeBatcher&) = delete;

  /// Whether such a change may wait for other changes and go with them.
  static bool takes(wire::Op op, ByteView body, const Limits& limits);
  /// As SendOne. The replies of one batch share its lists.
  job::Task<Result<ChangeReply>> send(wire::Op op, ByteView body, Limits limits);

  Counters counters() const { return counters_; }

 private:
  struct Change;
  using Changes = std::vector<std::shared_ptr<Change>>;

  job::Task<Result<ChangeReply>> send_now(wire::Op op, ByteView body, Limits limits);
  job::Task<void> wait_for_turn(Change& change);
  void answered();
  void start_batch();
  Changes take_some();
  job::Task<void> send_together(Changes changes);
  void answer(const Changes& changes, Result<rpc::RawReply> reply);

  job::Executor& executor_;
  job::Gate& gate_;
  const job::StopToken stop_;
  SendOne send_one_;
  unsigned under_way_ = 0;
  std::uint64_t answers_ = 0;  // requests that were answered
  std::deque<std::shared_ptr<Change>> waiting_;
  Counters counters_;
};

}  // namespace spate::client
