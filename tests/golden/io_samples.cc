// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/samples.h"

namespace spate::golden {
namespace {

constexpr Handle kFile{0x0002000000000007};

Bytes bytes_of(std::string_view text) { return to_bytes(as_bytes(text)); }

wire::SlotSet slot_set() {
  wire::SlotSet where;
  where.handle = kFile;
  where.strip_bytes = 65536;
  where.slot_count = 4;
  where.slots = {{1, TargetId(513)}, {3, TargetId(768)}};
  return where;
}

std::vector<wire::DatafileState> states() {
  return {{0x100, 0x1000, 11, WallTime{1'700'000'000'000'000'021}},
          {0x200, 0x2000, 12, WallTime{1'700'000'000'000'000'022}}};
}

}  // namespace

template <>
std::vector<wire::ReadRequest> samples() {
  std::vector<wire::ReadRequest> all;
  for (const datatype::Description& what : sample_descriptions()) {
    wire::ReadRequest m;
    m.where = slot_set();
    m.what = what;
    m.inline_limit = 16'384;
    m.unit_bytes = 1 << 20;
    m.path = wire::DataPath::kCached;
    m.want_checksum = true;
    all.push_back(m);
  }
  return all;
}

template <>
std::vector<wire::ReadReply> samples() {
  wire::ReadReply bulk;
  bulk.datafiles = states();
  bulk.stream_bytes = {0x80, 0x90};
  wire::ReadReply with_data = bulk;
  with_data.checksum = 0xCAFEF00D;
  with_data.data = bytes_of("two streams");
  return {bulk, with_data};
}

template <>
std::vector<wire::WriteRequest> samples() {
  wire::WriteRequest bulk;
  bulk.where = slot_set();
  bulk.what = sample_descriptions().front();
  bulk.unit_bytes = 1 << 20;
  bulk.path = wire::DataPath::kBuffered;
  bulk.fs_time = WallTime{1'700'000'000'000'000'031};
  bulk.sync = true;
  wire::WriteRequest with_data = bulk;
  with_data.sync = false;
  with_data.checksum = 0xCAFEF00D;
  with_data.has_inline_data = true;
  with_data.data = bytes_of("two streams");
  return {bulk, with_data};
}

template <>
std::vector<wire::WriteReply> samples() {
  wire::WriteReply m;
  m.datafiles = states();
  return {m};
}

template <>
std::vector<wire::DatafileStatRequest> samples() {
  wire::DatafileStatRequest m;
  m.handle = kFile;
  m.slots = slot_set().slots;
  return {m};
}

template <>
std::vector<wire::DatafileStatReply> samples() {
  wire::DatafileStatReply m;
  m.datafiles = states();
  return {m};
}

template <>
std::vector<wire::DatafileTruncateRequest> samples() {
  wire::DatafileTruncateRequest m;
  m.handle = kFile;
  m.slots = slot_set().slots;
  m.sizes = {0x1234, 0x5678};
  m.truncate_generation = 6;
  m.fs_time = WallTime{1'700'000'000'000'000'041};
  return {m};
}

template <>
std::vector<wire::PunchRequest> samples() {
  wire::PunchRequest m;
  m.where = slot_set();
  m.what = sample_descriptions().front();
  m.allocate = true;
  m.fs_time = WallTime{1'700'000'000'000'000'051};
  return {m};
}

template <>
std::vector<wire::DatafileAllocateRequest> samples() {
  wire::DatafileAllocateRequest m;
  m.where = slot_set();
  m.what = sample_descriptions().front();
  m.extend = true;
  m.fs_time = WallTime{1'700'000'000'000'000'052};
  return {m};
}

template <>
std::vector<wire::DatafileSyncRequest> samples() {
  wire::DatafileSyncRequest m;
  m.handle = kFile;
  m.slots = slot_set().slots;
  return {m};
}

template <>
std::vector<wire::DatafileFlushRequest> samples() {
  wire::DatafileFlushRequest m;
  m.handle = kFile;
  m.slots = slot_set().slots;
  return {m};
}

template <>
std::vector<wire::DatafileFlushReply> samples() {
  wire::DatafileFlushReply m;
  m.datafiles = states();
  m.lost = {0, 0x123456789ABCDEF0};
  return {m};
}

template <>
std::vector<wire::DatafileRemoveRequest> samples() {
  wire::DatafileRemoveRequest m;
  m.datafiles = {{kFile, {1, TargetId(513)}}, {Handle(8), {0, TargetId(512)}}};
  m.tombstone_until = WallTime{1'700'000'000'000'000'061};
  return {m};
}

template <>
std::vector<wire::DatafileListRequest> samples() {
  wire::DatafileListRequest m;
  m.target = TargetId(513);
  m.after_handle = kFile;
  m.after_slot = 1;
  m.max = 1000;
  return {m};
}

template <>
std::vector<wire::DatafileListReply> samples() {
  wire::DatafileListReply m;
  m.datafiles = {{kFile, {1, TargetId(513)}}, {Handle(8), {0, TargetId(513)}}};
  m.end = true;
  return {m};
}

template <>
std::vector<wire::IoStatfsRequest> samples() {
  return {{}};
}

template <>
std::vector<wire::IoStatfsReply> samples() {
  wire::IoStatfsReply m;
  m.targets = {{TargetId(512), 1ULL << 40U, 1ULL << 39U, 1'000'000, 999'000, 0x0801, "uring"},
               {TargetId(513), 1ULL << 30U, 1ULL << 29U, 2'000'000, 1'999'000, 0x0802, "pool"}};
  return {m};
}

template <>
std::vector<wire::FenceRequest> samples() {
  wire::FenceRequest m;
  m.client = ClientId(0x0102030405060708);
  m.lowest_epoch = 6;
  return {m};
}

template <>
std::vector<wire::UsedNumbersRequest> samples() {
  return {{}};
}

template <>
std::vector<wire::UsedNumbersReply> samples() {
  return {{0x123456789A, 0x2345, TargetId(0x01000007)}};
}

}  // namespace spate::golden
