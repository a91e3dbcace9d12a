// SPDX-License-Identifier: Apache-2.0
// EventLoop: the turns of the shm module: polled links, what epoll reports, and deadlines.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"
#include "bmi/shm/connector.h"
#include "bmi/shm/listeners.h"
#include "bmi/shm/note_reader.h"

namespace spate::bmi::shm {

/// The module's lock guards it. Life cycle: open() -> poll() again and again -> destroyed.
class EventLoop {
 public:
  /// The parts that a turn calls; the module owns them.
  struct Parts {
    State& state;
    Events& events;
    Links& links;
    PolledLinks& polled;
    NoteReader& notes;
    Listeners& listeners;
    Connector& connector;
    protocol::WakeTimer& timer;
  };
  explicit EventLoop(const Parts& parts) : parts_(parts) {}

  /// False, with errno: out of descriptors.
  bool open();
  /// A turn. Returns whether there was anything to do.
  bool poll();
  /// See Module::prepare_to_wait.
  bool prepare_to_wait();
  /// Wakes a sleeping thread, because another one has left it work.
  void wake();
  /// A located send was cancelled: drops the peer unless it answers within the grace period.
  void begin_grace(Peer& peer, Op& op);

 private:
  bool turn_all();
  bool look_at_events();
  void on_event(Pollable& pollable, std::uint32_t events);
  void on_socket(Link& link);
  void on_hangup(Link& link);
  bool expire();
  void on_deadline(Link& link);

  const Parts parts_;
  UniqueFd wake_;
  std::uint32_t turns_without_bulk_ = 0;
  std::uint64_t since_events_ = 0;  // turns since the last look at epoll, weighed by their work
  bool sleeping_ = false;           // a thread may be asleep on the descriptor
  bool active_ = false;             // a turn found something since the last prepare_to_wait()
  MonoTime spin_until_;
};

}  // namespace spate::bmi::shm
