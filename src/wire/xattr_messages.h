// SPDX-License-Identifier: Apache-2.0
// Requests for extended attributes (docs/wire.md, "Name space").
#pragma once

#include "wire/meta_messages.h"

namespace spate::wire {

struct GetxattrRequest {
  static constexpr Op kOp = Op::kGetxattr;
  static constexpr std::string_view kName = "getxattr request";
  NamePath where;
  std::string name;
  template <typename A>
  void fields(A& a) {
    a(where, name);
  }
};
struct GetxattrReply {
  static constexpr std::string_view kName = "getxattr reply";
  Bytes value;
  template <typename A>
  void fields(A& a) {
    a(value);
  }
};

enum XattrFlags : std::uint8_t {
  kXattrCreate = 1,
  kXattrReplace = 2,
  /// The access control list clears setgid, since the caller for whom it is set is not in the object's group. Servers
  /// from before this bit ignore it.
  kXattrKillSetgid = 4,
};

struct SetxattrRequest {
  static constexpr Op kOp = Op::kSetxattr;
  static constexpr std::string_view kName = "setxattr request";
  NamePath where;
  std::string name;
  Bytes value;
  std::uint8_t flags = 0;
  template <typename A>
  void fields(A& a) {
    a(where, name, value, flags);
  }
};
using SetxattrReply = Empty;

struct ListxattrRequest {
  static constexpr Op kOp = Op::kListxattr;
  static constexpr std::string_view kName = "listxattr request";
  NamePath where;
  template <typename A>
  void fields(A& a) {
    a(where);
  }
};
struct ListxattrReply {
  static constexpr std::string_view kName = "listxattr reply";
  std::vector<std::string> names;
  template <typename A>
  void fields(A& a) {
    a(names);
  }
};

struct RemovexattrRequest {
  static constexpr Op kOp = Op::kRemovexattr;
  static constexpr std::string_view kName = "removexattr request";
  NamePath where;
  std::string name;
  template <typename A>
  void fields(A& a) {
    a(where, name);
  }
};
using RemovexattrReply = Empty;

}  // namespace spate::wire
