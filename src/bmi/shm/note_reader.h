// SPDX-License-Identifier: Apache-2.0
// NoteReader: reads the notes that peers send by the sockets of their links.
#pragma once

#include "bmi/shm/packet.h"
#include "bmi/shm/polled_links.h"
#include "bmi/shm/state.h"

namespace spate::bmi::shm {

/// The module's lock guards it. Life cycle: that of the module.
class NoteReader {
 public:
  NoteReader(State& state, PolledLinks& polled) : state_(state), polled_(polled) {}

  /// Reads the notes that are there. False: the link has ended. A peer that breaks the protocol is marked as lost.
  bool read(Link& link);

 private:
  bool on_note(Link& link, Packet& packet);
  bool on_arena(Link& link, const Note& note, Packet& packet);
  void on_descriptor(Link& link, const Note& note, Packet& packet);

  State& state_;
  PolledLinks& polled_;
};

}  // namespace spate::bmi::shm
