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

}  // namespace spate::golden
