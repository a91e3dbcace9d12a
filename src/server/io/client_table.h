// SPDX-License-Identifier: Apache-2.0
// ClientTable: the clients that have joined, their requests under way, and their fenced epochs.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>

#include "job/event.h"
#include "job/executor.h"
#include "job/stop.h"
#include "job/task.h"
#include "model/ids.h"

namespace spate::io {

class ActiveRequest;

/// The clients that have joined this io server since its start. One executor; pinned.
///
/// Life cycle of an entry: add() at the client's handshake -> find() at each of its requests, each of which adds an
/// ActiveRequest -> dropped when the table is full and this entry is the least recently used one without requests and
/// pins. A client whose entry was dropped must repeat the handshake (its requests are refused with kUnauthenticated);
/// the handshake restores its fence. So dropping an entry loses nothing. Above `max` entries the table grows only if
/// all entries are in use.
///
/// A pointer to an entry is valid until the next await, unless an ActiveRequest or a Pin holds the entry. The table
/// outlives both.
class ClientTable {
 public:
  ClientTable(job::Executor& executor, std::size_t max) : executor_(executor), max_(max) {}
  ClientTable(const ClientTable&) = delete;
  ClientTable& operator=(const ClientTable&) = delete;

  struct Entry {
    explicit Entry(job::Executor& executor, ClientId id) : client(id), one_ended(executor) {}
    const ClientId client;
    std::uint64_t incarnation = 0;    // the newest that has joined
    std::uint32_t lowest_epoch = 0;   // requests of lower epochs are refused
    ActiveRequest* active = nullptr;  // head of the list of requests under way
    job::Event one_ended;             // set when a request ends
    std::size_t pins = 0;
  };
  /// Keeps an entry in the table across awaits.
  class Pin {
   public:
    explicit Pin(Entry& entry) : entry_(entry) { ++entry_.pins; }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;
    ~Pin() { --entry_.pins; }

   private:
    Entry& entry_;
  };

  /// Null when the client has not joined since this server's start, or its entry was dropped.
  Entry* find(ClientId client);
  Entry& add(ClientId client);
  std::size_t size() const { return entries_.size(); }

  /// Stops every request of the client that `older` selects and waits until none is left. It asks `older` again after
  /// each wait. The entry stays in the table meanwhile.
  template <typename Older>
  job::Task<void> end_all(Entry& entry, Older older);

 private:
  void forget_oldest();

  job::Executor& executor_;
  const std::size_t max_;
  std::list<Entry> order_;  // last used first
  std::unordered_map<ClientId, std::list<Entry>::iterator> entries_;
};

/// One request of a client, from its checks to its last effect. Pinned; it lives on the frame of the handler, or with
/// the work that continues after the answer.
///
/// Its token fires with the request's own token, when the client's session is fenced, and when a newer incarnation of
/// the client comes. The request must then end soon: ClientTable::end_all() waits for its destructor without a
/// deadline, and the fence is answered only then. The destructor leaves the entry's list.
class ActiveRequest {
 public:
  /// `entry` is null for a request of a server: the table does not track those.
  ActiveRequest(ClientTable::Entry* entry, std::uint64_t incarnation, std::uint32_t epoch, job::StopToken parent);
  ActiveRequest(const ActiveRequest&) = delete;
  ActiveRequest& operator=(const ActiveRequest&) = delete;
  ~ActiveRequest();

  job::StopSource& stop() { return stop_; }
  job::StopToken token() { return job::StopToken(stop_); }
  /// Replaces the parent token. For a request that has been answered while some of its work continues.
  void move_to(job::StopToken parent);

  const std::uint64_t incarnation;
  const std::uint32_t epoch;

 private:
  friend class ClientTable;
  job::StopSource stop_;
  job::StopToken parent_;
  job::StopCallback on_parent_;
  ClientTable::Entry* entry_;
  ActiveRequest* next_ = nullptr;
  ActiveRequest* previous_ = nullptr;
};

template <typename Older>
job::Task<void> ClientTable::end_all(Entry& entry, Older older) {
  const Pin pin(entry);
  for (;;) {
    bool any = false;
    for (ActiveRequest* r = entry.active; r != nullptr; r = r->next_) {
      if (!older(*r)) continue;
      any = true;
      r->stop_.request_stop();
    }
    if (!any) break;
    entry.one_ended.reset();
    std::ignore = co_await entry.one_ended.wait();
  }
}

}  // namespace spate::io
