// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/samples.h"

namespace spate::golden {

template <>
std::vector<wire::GroupMessageRequest> samples() {
  return {{0x0102030405060708, 1, 2, to_bytes(as_bytes("half of it"))}};
}

template <>
std::vector<wire::GroupMessageReply> samples() {
  return {{to_bytes(as_bytes("obeyed"))}};
}

template <>
std::vector<wire::DataGroupsRequest> samples() {
  return {{{TargetId(0x01000002), TargetId(0x01000003)}, TargetId(0x01000001), ServerId(4)}};
}

template <>
std::vector<wire::DataGroupsReply> samples() {
  return {{{sample_group()}, true}};
}

template <>
std::vector<wire::ChangeGroupRequest> samples() {
  return {{0x0102030405060707, TargetId(512), sample_group()}};
}

template <>
std::vector<wire::ChangeGroupReply> samples() {
  return {{sample_group(), true}};
}

}  // namespace spate::golden
