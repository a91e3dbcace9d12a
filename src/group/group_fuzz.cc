// SPDX-License-Identifier: Apache-2.0
// Fuzzer: messages of members of a group, and a group's record, from any bytes. A value that decodes must encode to the
// same bytes. The first byte chooses the decoder.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "group/messages.h"
#include "trove/replicated_keyval.h"

namespace spate::group {
namespace {

template <typename Decode>
void check(ByteView input, Decode decode) {
  const auto decoded = decode(input);
  if (decoded) SPATE_CHECK(std::ranges::equal(encode(*decoded), input));
}

void check_entry(ByteView input) {
  const auto entry = trove::decode_entry(input);
  if (!entry) return;
  SPATE_CHECK(trove::position_of_entry(input) == entry->at);
}

}  // namespace
}  // namespace spate::group

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate::group;
  if (size == 0) return 0;
  const spate::ByteView input(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  switch (data[0]) {
    case 0: check(input, decode_message); break;
    case 1: check(input, decode_answer); break;
    case 2: check(input, decode_group_record); break;
    default: check_entry(input); break;
  }
  return 0;
}
