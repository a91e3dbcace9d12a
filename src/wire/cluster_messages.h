// SPDX-License-Identifier: Apache-2.0
// Requests about the whole file system: its counts, a sync of all changes, its servers and targets (docs/wire.md,
// "Name space").
#pragma once

#include "wire/session_messages.h"

namespace spate::wire {

struct MetaStatfsRequest {
  static constexpr Op kOp = Op::kMetaStatfs;
  static constexpr std::string_view kName = "meta statfs request";
  template <typename A>
  void fields(A&) {}
};
struct MetaStatfsReply {
  static constexpr std::string_view kName = "meta statfs reply";
  std::uint64_t objects = 0;  // inodes in use
  std::uint64_t sessions = 0;
  std::uint64_t removals = 0;  // files whose datafiles are still to be removed
  template <typename A>
  void fields(A& a) {
    a(objects, sessions, removals);
  }
};

/// The reply comes when every name-space change that was acknowledged before is durable.
struct MetaSyncRequest {
  static constexpr Op kOp = Op::kMetaSync;
  static constexpr std::string_view kName = "meta sync request";
  template <typename A>
  void fields(A&) {}
};
using MetaSyncReply = Empty;

/// Asks for the servers and targets on which the meta server places files.
struct ClusterMapRequest {
  static constexpr Op kOp = Op::kClusterMap;
  static constexpr std::string_view kName = "cluster map request";
  template <typename A>
  void fields(A&) {}
};
struct ClusterMapReply {
  static constexpr std::string_view kName = "cluster map reply";
  ClusterMap map;
  template <typename A>
  void fields(A& a) {
    a(map);
  }
};

}  // namespace spate::wire
