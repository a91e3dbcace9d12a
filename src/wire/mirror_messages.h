// SPDX-License-Identifier: Apache-2.0
// Requests to the meta server about groups of targets that keep the same datafiles (docs/wire.md, "Groups of targets").
#pragma once

#include "model/data_group.h"
#include "wire/header.h"

namespace spate::wire {

constexpr std::size_t kMaxGroupsAsked = 4096;  // of one request by numbers
constexpr std::size_t kMaxGroupsTold = 1024;   // of one reply

/// Asks for the records of groups. With `groups`, the reply has those of them that exist, in the order of the request.
/// Without, it has all groups above `after`, ascending; with `server` only those with a target of that server.
struct DataGroupsRequest {
  static constexpr Op kOp = Op::kDataGroups;
  static constexpr std::string_view kName = "data groups request";
  std::vector<TargetId> groups;  // at most kMaxGroupsAsked
  TargetId after;                // without `groups` only
  ServerId server;               // without `groups` only; 0: any
  template <typename A>
  void fields(A& a) {
    a(groups, after, server);
  }
};
struct DataGroupsReply {
  static constexpr std::string_view kName = "data groups reply";
  std::vector<DataGroup> groups;  // at most kMaxGroupsTold
  /// Whether groups are missing: ask again for those behind the last of `groups`, by numbers or above `after`.
  bool more = false;
  template <typename A>
  void fields(A& a) {
    a(groups, more);
  }
};

/// Io servers send it; needs the server key. Replaces the record of epoch `from_epoch` by `next` if the member `by` may
/// do that (check_change()). If the present record is `next` already, nothing changes and `made` is true: the request
/// may be repeated. If `from_epoch` is the epoch of `next` itself, `by` reports the record that it accepts, since the
/// meta server's one is older: the meta store must be an older copy of itself. The meta server takes it over if `by`
/// serves in both records; kInvalidArgument otherwise. kNotFound: there is no such group. kInvalidArgument: the change
/// of that record would not be legal. kTryAgain: a member cannot be replaced now.
struct ChangeGroupRequest {
  static constexpr Op kOp = Op::kChangeGroup;
  static constexpr std::string_view kName = "change group request";
  std::uint64_t from_epoch = 0;
  TargetId by;
  DataGroup next;
  template <typename A>
  void fields(A& a) {
    a(from_epoch, by, next);
  }
};
struct ChangeGroupReply {
  static constexpr std::string_view kName = "change group reply";
  DataGroup now;      // the present record
  bool made = false;  // it is `next`; else the record has another epoch than `from_epoch`, and did not change
  template <typename A>
  void fields(A& a) {
    a(now, made);
  }
};

}  // namespace spate::wire
