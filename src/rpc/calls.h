// SPDX-License-Identifier: Apache-2.0
// Calls: the calls under way in a server. It ends a call when nobody waits for its answer any more.
#pragma once

#include <list>
#include <map>
#include <utility>

#include "job/event.h"
#include "job/network.h"
#include "rpc/call.h"

namespace spate::rpc {

/// One per server. One executor; pinned. Life cycle: construct -> watch_connections() runs, with one Entry for each
/// call -> its `stop` fires -> destroyed, when no Entry lives. Abandoning a call only asks it to stop: its handler goes
/// on until it sees the stop, and its reply is not sent.
class Calls {
 public:
  explicit Calls(job::NetworkContext& network) : network_(network), changed_(network.executor()) {}
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  /// A call under way. Lives on its coroutine's frame.
  class Entry {
   public:
    /// `stop` ends the call. Both outlive the entry.
    Entry(Calls& calls, const Call& call, job::StopSource& stop);
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry();
    /// Its connection was lost, or a newer copy of its request has come: no answer is expected.
    bool abandoned() const { return abandoned_; }

   private:
    friend class Calls;
    void abandon();
    Calls& calls_;
    const Call& call_;
    job::StopSource& stop_;
    std::list<Entry*>::iterator place_;
    bool newest_of_slot_ = false;
    bool abandoned_ = false;
  };

  /// Call it when the caller of a request with a slot is authenticated. It abandons an earlier call of the same slot,
  /// which the client has given up or has sent again.
  void supersede(Entry& newest);

  /// Abandons calls soon after their connection is lost. Ends with `stop`.
  job::Task<void> watch_connections(job::StopToken stop);

 private:
  using RequestSlot = std::pair<ClientId, std::uint16_t>;
  void abandon_the_disconnected();

  job::NetworkContext& network_;
  std::list<Entry*> entries_;
  std::map<RequestSlot, Entry*> by_slot_;
  job::Event changed_;
};

}  // namespace spate::rpc
