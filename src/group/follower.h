// SPDX-License-Identifier: Apache-2.0
// Follower: a primary's knowledge of one other member.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "model/ids.h"

namespace spate::group {

/// One for each other member, while this member leads in one epoch. A value.
struct Follower {
  enum class State : std::uint8_t {
    kProbe,   // it is not known how far its log has come
    kStream,  // its log is a beginning of ours: it receives the following entries
    kCopy,    // its log differs from ours, or is too old: it receives a copy of everything
  };

  ServerId server;
  State state = State::kProbe;
  std::uint64_t next = 1;          // kStream: the next entry to send
  std::size_t sent = 0;            // entries in the latest message
  std::uint64_t matched = 0;       // its log agrees with ours up to this entry
  std::uint64_t synced = 0;        // its log is synced up to this entry
  std::uint64_t process = 0;       // the run of its process that `matched` and `synced` describe
  std::optional<MonoTime> leased;  // when the latest beacon that it has acknowledged was sent
  MonoTime answered;               // when it last answered, or when this member began to lead
  MonoTime progressed;             // when it last had everything or advanced
  /// The record says that it serves, or a change under way may make it say so: nothing counts as replicated without it.
  bool required = false;
  bool promoting = false;  // promote() checks whether it may serve, or changes the record
  MonoTime not_before;     // it did not sync in time: promote() is not tried again before
  bool short_of_space = false;
  /// The record says that it serves, but it must not: it lacks entries, or may lack some.
  bool unfit = false;
};

}  // namespace spate::group
