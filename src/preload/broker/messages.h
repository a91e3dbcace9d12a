// SPDX-License-Identifier: Apache-2.0
// The messages between a program and its broker (README.md). Each is one packet of a local socket, with at most one
// descriptor.
#pragma once

#include <optional>

#include "wire/lock_messages.h"

namespace spate::preload {

enum class BrokerOp : std::uint8_t {
  kHold = 1,    // with the file's memfd: keep the file open as long as the memfd exists
  kLock = 2,    // set `lock`; with the memfd, unless the lock belongs to a process
  kTest = 3,    // report what conflicts with `lock`
  kDrop = 4,    // release the process's record locks on lock.handle; handle 0: all of them
  kSettle = 5,  // answer when the releases for all descriptors closed so far have ended
  kCancel = 6   // stop waiting for the lock that this connection requested; there is no reply
};

struct BrokerRequest {
  static constexpr std::string_view kName = "broker request";
  static constexpr std::uint16_t kVersion = 1;
  std::uint16_t version = kVersion;
  BrokerOp word = BrokerOp::kSettle;
  std::uint64_t incarnation = 0;  // of the broker that has the open file's locks already; 0: none has
  /// The broker ignores its owner: a lock of kProcess belongs to the connected process, others to the memfd.
  wire::LockSpec lock;
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
