// SPDX-License-Identifier: Apache-2.0
// GroupRecord: what the coordinator knows of a group.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "model/ids.h"

namespace spate::group {

struct MemberEntry {
  ServerId server;
  /// It holds every entry that is replicated: nothing is replicated without it, and it may become the primary. Else it
  /// is joining: it receives what there is and counts for nothing.
  bool serving = false;
  /// The run of its process that was found to hold every entry when it came to serve.
  std::uint64_t process = 0;
  friend bool operator==(const MemberEntry&, const MemberEntry&) = default;
};

struct GroupRecord {
  std::uint64_t epoch = 1;  // rises with each take-over; the primary changes nothing else by another epoch's hand
  ServerId primary;
  std::vector<MemberEntry> members;  // 1 to kMostMembers
  std::uint32_t min = 1;             // with fewer that serve nothing is changed
  std::uint64_t loss = 0;            // rises when what was not synced may be gone on all members

  const MemberEntry* find(ServerId server) const;
  MemberEntry* find(ServerId server);
  bool serves(ServerId server) const;
  std::size_t serving() const;
  friend bool operator==(const GroupRecord&, const GroupRecord&) = default;
};

inline constexpr std::size_t kMostMembers = 5;

std::string record_key(std::uint32_t group);
/// Of a group whose members have all been formatted and hold nothing.
GroupRecord new_group(const std::vector<ServerId>& members, std::uint32_t min);
Bytes encode(const GroupRecord& record);
/// kCorrupt; kFormatTooNew for one of a newer version.
Result<GroupRecord> decode_group_record(ByteView bytes);

}  // namespace spate::group
