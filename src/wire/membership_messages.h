// SPDX-License-Identifier: Apache-2.0
// Adding a server to a file system in use (docs/wire.md, "Servers that are added").
#pragma once

#include "wire/header.h"

namespace spate::wire {

/// Reserves a number for a server that is to be added.
struct ReserveServerRequest {
  static constexpr Op kOp = Op::kReserveServer;
  static constexpr std::string_view kName = "reserve server request";
  template <typename A>
  void fields(A&) {}
};
struct ReserveServerReply {
  static constexpr std::string_view kName = "reserve server reply";
  ServerId server;  // a number that no server has had, nor will have
  Bytes config;     // the text of the meta server's spate.toml
  template <typename A>
  void fields(A& a) {
    a(server, config);
  }
};

/// An io server that runs reports its addresses and targets. From the reply on, the meta server places files on it, and
/// sends it a fence for every session that ends. Repeatable.
struct JoinServerRequest {
  static constexpr Op kOp = Op::kJoinServer;
  static constexpr std::string_view kName = "join server request";
  ServerId server;
  std::vector<std::string> urls;  // in order of preference
  /// In the order of its storage folders. If the last is 0, it is no target, and `rack` follows.
  std::vector<TargetId> targets;
  std::string rack;
  bool has_rack() const { return !targets.empty() && !targets.back(); }
  template <typename A>
  void fields(A& a) {
    a(server, urls, targets);
    if (has_rack()) a(rack);
  }
};
struct JoinServerReply {
  static constexpr std::string_view kName = "join server reply";
  std::uint64_t map_version = 0;  // of a cluster map with this server
  template <typename A>
  void fields(A& a) {
    a(map_version);
  }
};

/// The client's epochs below `lowest_epoch` have ended.
struct ClientFence {
  ClientId client;
  std::uint32_t lowest_epoch = 0;
  template <typename A>
  void fields(A& a) {
    a(client, lowest_epoch);
  }
};

constexpr std::size_t kMaxFences = 16384;  // of one reply

/// Asks for the fences that every io server has received or is receiving.
struct ListFencesRequest {
  static constexpr Op kOp = Op::kListFences;
  static constexpr std::string_view kName = "list fences request";
  ClientId after;  // clients above this one
  template <typename A>
  void fields(A& a) {
    a(after);
  }
};
struct ListFencesReply {
  static constexpr std::string_view kName = "list fences reply";
  std::vector<ClientFence> fences;  // ascending by client, at most kMaxFences
  bool more = false;                // there are more of them
  template <typename A>
  void fields(A& a) {
    a(fences, more);
  }
};

}  // namespace spate::wire
