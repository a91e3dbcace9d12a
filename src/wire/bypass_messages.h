// SPDX-License-Identifier: Apache-2.0
// Requests to an io server about data paths (docs/wire.md, "Data"; docs/data-paths.md): bypass leases, and the path
// that a read or write would take.
#pragma once

#include "wire/io_messages.h"

namespace spate::wire {

/// The most slots of one lease request: each passes two descriptors at the same time.
constexpr std::size_t kMaxLeaseSlots = 16;
/// The most leases that one request returns.
constexpr std::size_t kMaxReturned = 4096;

/// Asks for leases on datafiles, over a connection that can pass descriptors. Needs the right to read, or with
/// `for_writing` to write.
struct BypassLeaseRequest {
  static constexpr Op kOp = Op::kBypassLease;
  static constexpr std::string_view kName = "bypass lease request";
  Handle handle;
  std::vector<SlotRef> slots;  // 1..kMaxLeaseSlots, ascending
  bool for_writing = false;
  template <typename A>
  void fields(A& a) {
    a(handle, slots, for_writing);
  }
};

/// If lease_id is not 0, two descriptors have been passed before this reply: the lease's page (model/lease_words.h)
/// with tag reply_tag + 1 + 2 * i, and the datafile with the next tag; i is the slot's index in the request.
struct GrantedLease {
  std::uint64_t lease_id = 0;  // 0: not granted
  std::string refusal;         // the reason, for people
  template <typename A>
  void fields(A& a) {
    a(lease_id, refusal);
  }
};
struct BypassLeaseReply {
  static constexpr std::string_view kName = "bypass lease reply";
  std::vector<GrantedLease> leases;  // one for each slot of the request, in its order
  template <typename A>
  void fields(A& a) {
    a(leases);
  }
};

/// A lease whose holder's operations have ended, and the bytes that it moved.
struct ReturnedLease {
  std::uint64_t lease_id = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  template <typename A>
  void fields(A& a) {
    a(lease_id, read_bytes, written_bytes);
  }
};
/// Returns leases. Ignores those that the caller does not hold, or no longer holds.
struct BypassReturnRequest {
  static constexpr Op kOp = Op::kBypassReturn;
  static constexpr std::string_view kName = "bypass return request";
  std::vector<ReturnedLease> leases;  // at most kMaxReturned
  template <typename A>
  void fields(A& a) {
    a(leases);
  }
};
using BypassReturnReply = Empty;

/// Asks which path a read or write would take now, and why. Moves nothing.
struct ExplainPathRequest {
  static constexpr Op kOp = Op::kExplainPath;
  static constexpr std::string_view kName = "explain path request";
  SlotSet where;
  datatype::Description what;
  bool is_write = false;
  DataPath path = DataPath::kAutomatic;
  template <typename A>
  void fields(A& a) {
    a(where, what, is_write, path);
  }
};
/// The text of ExplainedPath::bypass if a lease would be granted.
constexpr std::string_view kLeaseToBeHad = "a lease can be had";
struct ExplainedPath {
  DataPath path = DataPath::kAutomatic;  // kAutomatic: the request would be refused
  std::string why;                       // for people
  std::string bypass;                    // the answer that a request for a lease would get; for people
  template <typename A>
  void fields(A& a) {
    a(path, why, bypass);
  }
};
struct ExplainPathReply {
  static constexpr std::string_view kName = "explain path reply";
  std::vector<ExplainedPath> slots;  // one for each of where.slots, in their order
  template <typename A>
  void fields(A& a) {
    a(slots);
  }
};

}  // namespace spate::wire
