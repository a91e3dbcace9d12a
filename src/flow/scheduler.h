// SPDX-License-Identifier: Apache-2.0
// Scheduler: decides which waiting storage operation of one device runs next.
#pragma once

#include <coroutine>
#include <deque>
#include <map>
#include <unordered_map>

#include "base/result.h"
#include "job/executor.h"
#include "model/ids.h"
#include "wire/header.h"

namespace spate::flow {

struct SchedulerOptions {
  std::size_t running = 32;               // operations that the device has at once. Guess
  std::size_t waiting = 16384;            // with more, new operations are refused with kBusy
  std::uint64_t small_bytes = 16 * 1024;  // operations of at most this size go before larger ones. Guess
  unsigned per_round = 4;                 // operations of one client in a round. Guess
  unsigned small_run = 8;                 // after this many small ones in a row a large one goes, if one waits. Guess
  unsigned control_run = 64;              // after this many control ones in a row another one goes, if one waits. Guess
  unsigned others_run = 32;               // after this many others in a row a background one goes, if one waits. Guess
};

/// The client that an operation serves, and its urgency.
struct Asker {
  Asker(ClientId its_client = {}, wire::Priority its_priority = wire::Priority::kNormal,
        TraceId its_trace = {})  // NOLINT(google-explicit-constructor)
      : client(its_client), priority(its_priority), trace(its_trace) {}
  ClientId client;  // 0: a server
  wire::Priority priority;
  TraceId trace;  // of its request; 0: none
};

/// Describes an operation for the scheduler. An operation that moves no data (stat, sync, truncate) has bytes 0.
struct SchedulerRequest {
  ClientId client;
  DatafileId datafile;
  std::uint64_t offset = 0;  // of its first extent in the datafile, bytes
  std::uint64_t bytes = 0;
  wire::Priority priority = wire::Priority::kNormal;
};

/// Waiting operations run in rounds. Each client has at most `per_round` operations in a round, and a round is one
/// sweep in the order of (datafile, offset). So neighbouring operations reach the device together, and no client waits
/// longer than a round for its turn. Small operations have rounds of their own, which go first. Operations with
/// priority kControl go before all others, those with kBackground after all others. Now and then one of a lower class
/// goes first, so that none waits for ever. While fewer than `running` operations are in flight, nothing waits and
/// nothing is allocated. Not thread-safe: one executor. Not movable. It outlives its tickets.
class Scheduler {
 public:
  explicit Scheduler(job::Executor& executor, SchedulerOptions options = {});
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler() { SPATE_CHECK(running_ == 0 && waiting() == 0); }

  /// The right to have one operation in flight. Move-only; the destructor returns it.
  class Ticket {
   public:
    Ticket() = default;
    explicit Ticket(Scheduler& owner) : owner_(&owner) {}
    Ticket(Ticket&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    Ticket& operator=(Ticket&& other) noexcept {
      std::swap(owner_, other.owner_);
      return *this;
    }
    Ticket(const Ticket&) = delete;
    Ticket& operator=(const Ticket&) = delete;
    ~Ticket() {
      if (owner_ != nullptr) owner_->finished();
    }

   private:
    Scheduler* owner_ = nullptr;
  };

  /// Waits for a ticket. Yields a Result<Ticket>: kBusy if too many wait; if stopped before, the token's reason.
  auto admit(const SchedulerRequest& request, job::StopToken stop = {}) { return Awaiter(*this, request, stop); }

  std::size_t running() const { return running_; }
  std::size_t waiting() const { return control_.size() + small_.size() + large_.size() + background_.size(); }

 private:
  /// Place of an operation in a sweep. Operations at the same place are ordered by arrival.
  struct Position {
    DatafileId datafile;
    std::uint64_t offset = 0;
    std::uint64_t order = 0;
    friend auto operator<=>(const Position&, const Position&) = default;
  };
  class Awaiter {
   public:
    Awaiter(Scheduler& owner, const SchedulerRequest& request, job::StopToken stop)
        : owner_(owner), request_(request), stop_(stop) {}
    bool await_ready();
    void await_suspend(std::coroutine_handle<> handle);
    Result<Ticket> await_resume();

   private:
    friend class Scheduler;
    void give_up();
    Position position() const { return {request_.datafile, request_.offset, order_}; }
    Scheduler& owner_;
    const SchedulerRequest request_;
    job::StopToken stop_;
    job::StopCallback on_stop_;
    std::coroutine_handle<> handle_;
    std::uint64_t order_ = 0;
    bool in_round_ = false;
    Errc outcome_ = Errc::kOk;
    bool granted_ = false;
  };

  /// Small or large operations.
  class Queue {
   public:
    explicit Queue(unsigned per_round) : per_round_(per_round) {}
    std::size_t size() const { return size_; }
    void add(Awaiter& waiter);
    void remove(Awaiter& waiter);
    /// Call it only while size() > 0.
    Awaiter& take();

   private:
    struct Client {
      unsigned in_round = 0;       // how many of its operations this round has or had
      std::deque<Awaiter*> later;  // for the next rounds
    };
    void next_round();
    void join_round(Awaiter& waiter, Client& client);
    const unsigned per_round_;
    std::size_t size_ = 0;
    std::map<Position, Awaiter*> round_;
    Position swept_;                                // the last one taken
    std::unordered_map<ClientId, Client> clients_;  // of this round
  };

  Queue& queue_of(const SchedulerRequest& request);
  void finished();
  Awaiter& take_next();
  Awaiter& take_normal();

  job::Executor& executor_;
  const SchedulerOptions options_;
  Queue control_;
  Queue small_;
  Queue large_;
  Queue background_;
  std::size_t running_ = 0;
  unsigned control_in_a_row_ = 0;
  unsigned others_in_a_row_ = 0;  // since the last background one
  unsigned small_in_a_row_ = 0;
  std::uint64_t next_order_ = 0;
};

}  // namespace spate::flow
