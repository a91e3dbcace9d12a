// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/samples.h"

namespace spate::golden {
namespace {

wire::LockSpec spec(LockKind kind, LockMode mode) {
  return {Handle(0x0002000000000007), kind, 0xFEDCBA9876543210, 4711, mode, 0x1000, 0x1FFF};
}

}  // namespace

template <>
std::vector<wire::LockRequest> samples() {
  wire::LockRequest flock;
  flock.lock = {Handle(0x0002000000000007), LockKind::kFlock, 3, 4712, LockMode::kShared, 0, LockRange::kToEnd};
  flock.sequence = 1;
  return {{spec(LockKind::kProcess, LockMode::kExclusive), true, 0x1122, 0x1120, 0x5566778899AABBCC}, flock};
}

template <>
std::vector<wire::LockReply> samples() {
  return {{true, 0x5566778899AABBCC}};
}

template <>
std::vector<wire::LockTestRequest> samples() {
  return {{spec(LockKind::kOpenFile, LockMode::kShared)}};
}

template <>
std::vector<wire::LockTestReply> samples() {
  wire::LockTestReply free;
  return {{spec(LockKind::kProcess, LockMode::kExclusive), ClientId(0x0102030405060708)}, free};
}

template <>
std::vector<wire::LockCancelRequest> samples() {
  return {{0x1122}};
}

template <>
std::vector<wire::LockCancelReply> samples() {
  return {{true, 0x5566778899AABBCC}};
}

template <>
std::vector<wire::SessionEventsRequest> samples() {
  return {{0x5566778899AABBCC, 41, 3333}};
}

template <>
std::vector<wire::SessionEventsReply> samples() {
  return {{0x5566778899AABBCC,
           {{42, wire::SessionEventType::kLockGranted, 0x1122},
            {43, wire::SessionEventType::kLockRefused, 0x1123},
            {44, wire::SessionEventType::kAppendRecalled, 0x0002000000000007}}}};
}

template <>
std::vector<wire::LockReclaimRequest> samples() {
  return {{{spec(LockKind::kProcess, LockMode::kExclusive), spec(LockKind::kAppend, LockMode::kExclusive)}, false}};
}

template <>
std::vector<wire::LockReclaimReply> samples() {
  return {{0x5566778899AABBCC, {1, 7}}};
}

}  // namespace spate::golden
