// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/samples.h"

namespace spate::golden {

template <>
std::vector<wire::ReserveServerRequest> samples() {
  return {{}};
}

template <>
std::vector<wire::ReserveServerReply> samples() {
  return {{ServerId(5), to_bytes(as_bytes("[fs]\n"))}};
}

template <>
std::vector<wire::JoinServerRequest> samples() {
  const std::vector<std::string> urls{"shm:///run/spate/5", "tcp://10.0.0.5:7405"};
  return {{ServerId(5), urls, {TargetId(1280), TargetId(1281)}, {}},
          {ServerId(5), urls, {TargetId(1280), TargetId()}, "rack-2.b"}};
}

template <>
std::vector<wire::JoinServerReply> samples() {
  return {{0x0102030405060708}};
}

template <>
std::vector<wire::ListFencesRequest> samples() {
  return {{ClientId(0x1112131415161718)}};
}

template <>
std::vector<wire::ListFencesReply> samples() {
  return {{{{ClientId(0x2122232425262728), 7}, {ClientId(0x3132333435363738), 0x41424344}}, true}};
}

template <>
std::vector<wire::RevokeKeysRequest> samples() {
  const KeyId one{std::byte{0x51}, std::byte{0x52}};
  const KeyId other{std::byte{0x61}};
  const WallTime end{1'700'000'000'000'000'094};
  return {{{one, other}, {}}, {}, {{one, other, KeyId{}}, {end, WallTime()}}};
}

template <>
std::vector<wire::RevokeKeysReply> samples() {
  return {{{{KeyId{std::byte{0x51}, std::byte{0x52}}, WallTime{1'700'000'000'000'000'093}}}}};
}

}  // namespace spate::golden
