// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/samples.h"

namespace spate::golden {
namespace {

constexpr Handle kFile{0x0002000000000007};
constexpr Handle kOther{0x0002000000000009};

std::vector<wire::DatafileState> states() {
  return {{0x100, 0x1000, 11, WallTime{1'700'000'000'000'000'021}},
          {0x200, 0x2000, 12, WallTime{1'700'000'000'000'000'022}}};
}

}  // namespace

template <>
std::vector<wire::DatafileRangesRequest> samples() {
  wire::DatafileRangesRequest m;
  m.handle = kFile;
  m.slots = {{1, TargetId(513)}, {3, TargetId(768)}};
  m.offsets = {0x3000, 0};
  m.max_ranges = 16;
  return {m};
}

template <>
std::vector<wire::DatafileRangesReply> samples() {
  wire::DatafileRangesReply m;
  m.datafiles = states();
  m.ranges = {{{{0x4000, 0x1000}, {0x8000, 0x234}}, 0x8234}, {{}, (1ULL << 63U) - 1}};
  return {m};
}

template <>
std::vector<wire::DatafileCopyRequest> samples() {
  wire::DatafileCopyRequest m;
  m.from = kFile;
  m.to = kOther;
  m.pieces = {{TargetId(513), 1, 0, 0x1000, 0x2000, 0x3000}, {TargetId(768), 3, 2, 0, 0x1000, 0x4000}};
  m.from_capability.handle = kFile;
  m.from_capability.rights = Rights::kRead;
  m.from_capability.layout_generation = 2;
  m.from_capability.client = ClientId(0x0102030405060708);
  m.from_capability.session_epoch = 6;
  m.from_capability.uid = 1000;
  m.from_capability.gid = 100;
  m.from_capability.expiry = WallTime{1'700'000'000'000'000'071};
  m.fs_time = WallTime{1'700'000'000'000'000'072};
  return {m};
}

template <>
std::vector<wire::DatafileCopyReply> samples() {
  wire::DatafileCopyReply m;
  m.datafiles = states();
  return {m};
}

}  // namespace spate::golden
