// SPDX-License-Identifier: Apache-2.0
// EventLoop: the turns of the tcp module: it takes what epoll reports, reads the connections, serves bulk slices and
// watches the deadlines.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/biased_mutex.h"
#include "bmi/tcp/connector.h"
#include "bmi/tcp/hot_connection.h"
#include "bmi/tcp/listeners.h"
#include "bmi/tcp/send_schedule.h"

namespace spate::bmi::tcp {

/// Life cycle: construct with the parts -> poll() and wait() again and again -> destroyed, when no thread is in wait().
/// poll() never blocks. In a turn it writes what callers have held back, handles the events (reads, accepts, timers),
/// and then serves one slice of bulk data. Closed connections are freed at the end of a turn in which no thread sleeps
/// in wait(), since the events of a sleeper may point at them. The module's lock guards it, except sleep_follows(),
/// which needs no lock.
class EventLoop {
 public:
  /// The parts that a turn calls; the module owns them.
  struct Parts {
    State& state;
    Events& events;
    Connections& connections;
    BulkSlices& slices;
    SendSchedule& sends;
    IdleSweeps& idle;
    TlsStarts& tls;
    Listeners& listeners;
    Connector& connector;
    protocol::WakeTimer& timer;
  };
  explicit EventLoop(const Parts& parts) : parts_(parts), scratch_(std::make_unique<ReceiveScratch>()) {}

  /// A turn. Returns whether there was anything to do.
  bool poll();
  /// See Module::wait. Releases the lock while the thread sleeps. The next poll() handles the events.
  bool wait(std::unique_lock<BiasedMutex>& lock, Duration timeout);
  /// A thread goes to sleep on the descriptor.
  void sleep_follows() { slept_.store(true, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kEventsAtOnce = 64;
  struct Arrivals {
    std::uint64_t bytes = 0;
    bool anything = false;  // bytes came, or the connection ended
  };

  bool take_events();
  bool handle_fetched();
  bool handle(std::span<const epoll_event> events);
  void on_event(Pollable& pollable, std::uint32_t events);
  void on_connection_event(Connection& connection, std::uint32_t events);
  bool secure(Connection& connection, std::uint32_t events);
  Arrivals read(Connection& connection, std::uint64_t limit);
  bool read_hot();
  std::uint64_t serve(Connection& connection, std::uint64_t limit);
  bool take_reports(Connection& connection);
  void connection_failed(Connection& connection, bool protocol);
  bool expire();
  void on_deadline(Connection& connection);
  void arm_timer();

  const Parts parts_;
  std::unique_ptr<ReceiveScratch> scratch_;
  HotConnection hot_;
  std::atomic<bool> slept_{false};     // a thread went to sleep since the last poll()
  bool dry_ = false;                   // the last look at all connections found nothing, and no thread slept since
  std::vector<epoll_event> fetched_;   // events that wait() brought for the next poll()
  std::vector<epoll_event> handling_;  // those events while they are being handled
  bool fetched_all_ = false;           // wait() saw that there are no more events
  /// Threads in wait(): the events that they bring may point at connections that are closed in the meantime.
  unsigned sleepers_ = 0;
};

}  // namespace spate::bmi::tcp
