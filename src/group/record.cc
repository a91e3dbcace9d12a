// SPDX-License-Identifier: Apache-2.0
#include "group/record.h"

#include <algorithm>

#include "base/codec.h"

namespace spate::group {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kEntryBytes = 4 + 1 + 8;

}  // namespace

const MemberEntry* GroupRecord::find(ServerId server) const { return const_cast<GroupRecord*>(this)->find(server); }

MemberEntry* GroupRecord::find(ServerId server) {
  const auto found =
      std::find_if(members.begin(), members.end(), [server](const MemberEntry& m) { return m.server == server; });
  return found == members.end() ? nullptr : &*found;
}

bool GroupRecord::serves(ServerId server) const {
  const MemberEntry* const entry = find(server);
  return entry != nullptr && entry->serving;
}

std::size_t GroupRecord::serving() const {
  return static_cast<std::size_t>(
      std::count_if(members.begin(), members.end(), [](const MemberEntry& m) { return m.serving; }));
}

std::string record_key(std::uint32_t group) { return "group/" + std::to_string(group); }

GroupRecord new_group(const std::vector<ServerId>& members, std::uint32_t min) {
  SPATE_CHECK(!members.empty() && members.size() <= kMostMembers);
  GroupRecord record;
  record.primary = members.front();
  record.min = min;
  for (const ServerId server : members) record.members.push_back({server, true, 0});
  return record;
}

Bytes encode(const GroupRecord& record) {
  Bytes out;
  Encoder encoder(out);
  encoder.u8(kVersion);
  encoder.u64(record.epoch);
  encoder.u32(record.primary.value);
  encoder.u32(record.min);
  encoder.u64(record.loss);
  encoder.u32(static_cast<std::uint32_t>(record.members.size()));
  for (const MemberEntry& member : record.members) {
    encoder.u32(member.server.value);
    encoder.flag(member.serving);
    encoder.u64(member.process);
  }
  return out;
}

Result<GroupRecord> decode_group_record(ByteView bytes) {
  Decoder in(bytes);
  const std::uint8_t version = in.u8();
  if (in.ok() && version > kVersion) return Error(Errc::kFormatTooNew, "record of a group");
  GroupRecord record;
  record.epoch = in.u64();
  record.primary = ServerId(in.u32());
  record.min = in.u32();
  record.loss = in.u64();
  const std::uint32_t count = in.count(kEntryBytes);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    MemberEntry member;
    member.server = ServerId(in.u32());
    member.serving = in.flag();
    member.process = in.u64();
    if (record.find(member.server) != nullptr) in.fail();
    record.members.push_back(member);
  }
  const bool can_have_copies = record.min >= 1 && record.min <= count;
  const bool sound = version == kVersion && can_have_copies && record.epoch != 0 && count >= 1 &&
                     count <= kMostMembers && record.find(record.primary) != nullptr;
  if (!sound) in.fail();
  SPATE_TRY(std::ignore, in.finish("record of a group"));
  return record;
}

}  // namespace spate::group
