// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/samples.h"
#include "wire/mirror_forward_messages.h"

namespace spate::golden {
namespace {

constexpr TargetId kGroup{0x01000002};
constexpr std::uint64_t kEpoch = 0x0102030405060708;
const wire::MirrorRegion kRegion{Handle(0x0002000000000007), 3, 0x0405060708090a0b, true};

}  // namespace

template <>
std::vector<wire::MirrorForwardRequest> samples() {
  wire::MirrorForwardRequest a;
  a.group = kGroup;
  a.epoch = kEpoch;
  a.term = kEpoch - 2;
  a.number = 0x1112131415161718;
  a.done_below = 0x1112131415161702;
  a.window = 5;
  a.handle = Handle(0x0002000000000007);
  a.slot = 3;
  a.extents = {{0x2000, 3}, {0x4000, 1}};
  a.time = WallTime{1'700'000'000'000'000'111};
  a.data = Bytes(4, std::byte{0x5a});
  wire::MirrorForwardRequest b = a;
  b.change = wire::MirrorChange::kSettle;
  b.extents.clear();
  b.data.clear();
  b.extend = true;
  b.size = 0x21222324;
  b.truncate_generation = 9;
  b.counter = 0x3132333435363738;
  b.bulk_bytes = 0x41424344;
  return {a, b};
}

template <>
std::vector<wire::MirrorForwardReply> samples() {
  return {{wire::MirrorVerdict::kNotYet, Errc::kNoSpace, kEpoch}};
}

template <>
std::vector<wire::MirrorBeaconRequest> samples() {
  return {{{{sample_group(), kEpoch, 0x1112131415161702}}}};
}

template <>
std::vector<wire::MirrorBeaconReply> samples() {
  return {{{{wire::BeaconAnswer::kAcknowledged}, {wire::BeaconAnswer::kFresh | wire::BeaconAnswer::kLacksAll}}}};
}

template <>
std::vector<wire::MirrorObeyRequest> samples() {
  return {{sample_group(), kEpoch}};
}

template <>
std::vector<wire::MirrorObeyReply> samples() {
  return {{wire::MirrorVerdict::kOld, wire::BeaconAnswer::kFresh, {kRegion}}};
}

template <>
std::vector<wire::MirrorRecordsRequest> samples() {
  return {{kGroup, kEpoch, std::nullopt}, {kGroup, kEpoch, kRegion}};
}

template <>
std::vector<wire::MirrorRecordsReply> samples() {
  return {{wire::MirrorVerdict::kDone, {kRegion, kRegion}, true}};
}

template <>
std::vector<wire::MirrorWindowRequest> samples() {
  return {{kGroup, kEpoch, 7, true}};
}

template <>
std::vector<wire::MirrorFencesRequest> samples() {
  return {{kGroup, kEpoch, {{ClientId(0x0708090a), 4}}}};
}

}  // namespace spate::golden
