// SPDX-License-Identifier: Apache-2.0
// Follower: what a primary knows of one other member.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "model/ids.h"

namespace spate::group {

/// One for each other member, while this one leads in one epoch. A value.
struct Follower {
  enum class State : std::uint8_t {
    kProbe,   // not known how far its log has come
    kStream,  // its log is a beginning of ours: it receives what follows
    kCopy,    // its log is another one, or too old: it receives everything
  };

  ServerId server;
  State state = State::kProbe;
  std::uint64_t next = 1;          // kStream: the entry to be sent next
  std::uint64_t matched = 0;       // its log is ours up to here
  std::uint64_t synced = 0;        // and is synced up to here
  std::uint64_t process = 0;       // that has matched so far
  std::optional<MonoTime> leased;  // when the latest beacon that it has acknowledged was sent
  MonoTime answered;               // the same, or when this member began to lead
  MonoTime progressed;             // when it last had everything or got further
  /// It serves in the record, or a change may be made that says so: nothing is replicated without it.
  bool required = false;
  bool promoting = false;
  /// It serves in the record, but must not: it lacks entries, or may lack some.
  bool unfit = false;
};

}  // namespace spate::group
