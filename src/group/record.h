// SPDX-License-Identifier: Apache-2.0
// GroupRecord: the coordinator's record of a group.
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
  /// The member has every entry that is replicated: nothing counts as replicated without it, and it may become the
  /// primary. Otherwise it is joining: it receives all entries, but nobody waits for it.
  bool serving = false;
  /// The run of its process that was found to have every entry when it began to serve.
  std::uint64_t process = 0;
  friend bool operator==(const MemberEntry&, const MemberEntry&) = default;
};

struct GroupRecord {
  std::uint64_t epoch = 1;  // grows with each take-over; other changes are made only by the primary of the epoch
  ServerId primary;
  std::vector<MemberEntry> members;  // 1 to kMostMembers
  std::uint32_t min = 1;             // if fewer members serve, commits fail
  std::uint64_t loss = 0;            // grows when unsynced entries may be lost on all members

  const MemberEntry* find(ServerId server) const;
  MemberEntry* find(ServerId server);
  bool serves(ServerId server) const;
  std::size_t serving() const;
  friend bool operator==(const GroupRecord&, const GroupRecord&) = default;
};

inline constexpr std::size_t kMostMembers = 5;

std::string record_key(std::uint32_t group);
/// The record of a group whose members have just been formatted and have no records.
GroupRecord new_group(const std::vector<ServerId>& members, std::uint32_t min);
Bytes encode(const GroupRecord& record);
/// kCorrupt; kFormatTooNew for a newer version.
Result<GroupRecord> decode_group_record(ByteView bytes);

}  // namespace spate::group
