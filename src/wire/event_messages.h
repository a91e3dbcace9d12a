// SPDX-License-Identifier: Apache-2.0
// Messages by which a meta server tells a session of events: a lock is granted, a lease is recalled (docs/wire.md).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "wire/op.h"

namespace spate::wire {

/// Waits for at most `hold_ms` until there are events for this session.
struct SessionEventsRequest {
  static constexpr Op kOp = Op::kSessionEvents;
  static constexpr std::string_view kName = "session events request";
  std::uint64_t table = 0;         // of the last reply
  std::uint64_t acknowledged = 0;  // events up to this one have been received
  std::uint32_t hold_ms = 0;
  template <typename A>
  void fields(A& a) {
    a(table, acknowledged, hold_ms);
  }
};

enum class SessionEventType : std::uint8_t {
  kLockGranted = 1,     // the waiting request with sequence `subject` has its lock
  kLockRefused = 2,     // the wait ended without a lock: too many locks
  kAppendRecalled = 3,  // another client waits for this session's right to append to the file with handle `subject`
  // The session's lease on the object with handle `subject` is recalled. The acknowledgment means that the client has
  // dropped its copies.
  kLeaseRecalled = 4
};

struct SessionEvent {
  std::uint64_t number = 0;  // grows; two events of a session never have the same number, not even in two epochs
  SessionEventType type = SessionEventType::kLockGranted;
  std::uint64_t subject = 0;
  template <typename A>
  void fields(A& a) {
    a(number, type, subject);
  }
};

struct SessionEventsReply {
  static constexpr std::string_view kName = "session events reply";
  std::uint64_t table = 0;
  std::vector<SessionEvent> events;
  template <typename A>
  void fields(A& a) {
    a(table, events);
  }
};

}  // namespace spate::wire
