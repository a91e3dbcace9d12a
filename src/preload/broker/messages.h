// SPDX-License-Identifier: Apache-2.0
// The messages between a program and its broker (README.md). Each is one packet of a local socket, with at most one
// descriptor.
#pragma once

#include <optional>

#include "wire/lock_messages.h"

namespace spate::preload {

enum class BrokerOp : std::uint8_t {
  kHold = 1,    // with the file's memfd: it is open as long as that memfd is
  kLock = 2,    // sets `lock`, with the memfd unless it is a process's
  kTest = 3,    // what would be in the way of `lock`
  kDrop = 4,    // the process's record locks on lock.handle go; handle 0: all that it has
  kSettle = 5,  // answered when what ended with descriptors that are closed by now has been released
  kCancel = 6   // the lock that this connection waits for is not wanted any more; no reply of its own
};

struct BrokerRequest {
  static constexpr std::string_view kName = "broker request";
  static constexpr std::uint16_t kVersion = 1;
  std::uint16_t version = kVersion;
  BrokerOp word = BrokerOp::kSettle;
  std::uint64_t incarnation = 0;  // of the broker that has the open file's locks already; 0: it has none
  wire::LockSpec lock;            // its owner is not looked at: of kProcess it is who is connected, of others the memfd
  bool wait = false;
  template <typename A>
  void fields(A& a) {
    a(version, word, incarnation, lock, wait);
  }
};

struct BrokerReply {
  static constexpr std::string_view kName = "broker reply";
  Errc error = Errc::kOk;
  std::uint64_t incarnation = 0;
  std::optional<wire::LockSpec> conflict;
  template <typename A>
  void fields(A& a) {
    a(error, incarnation, conflict);
  }
};

}  // namespace spate::preload
