// SPDX-License-Identifier: Apache-2.0
// Fuzzer: decodes packets, extents, handshakes and URLs from any bytes. They must be refused, or their encoding must
// decode to the same value. The first byte chooses the decoder.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "bmi/ofi/packet.h"
#include "bmi/ofi/url.h"

namespace spate::bmi::ofi {
namespace {

void check_packet(ByteView input) {
  const std::optional<Packet> packet = decode_packet(input);
  if (!packet) return;
  SPATE_CHECK(packet->payload.size() + kHeaderSize == input.size());
  Bytes again(input.size());
  encode(packet->header, packet->payload.size(), again.data());
  SPATE_CHECK(std::ranges::equal(input.first(kHeaderSize), ByteView(again).first(kHeaderSize)));
}

void check_extents(ByteView input) {
  if (input.empty()) return;
  const std::uint64_t length = std::to_integer<std::uint64_t>(input[0]) << 8U;
  const std::optional<std::vector<Extent>> extents = decode_extents(input.subspan(1), length);
  if (!extents) return;
  Bytes again;
  encode(*extents, again);
  SPATE_CHECK(std::ranges::equal(again, input.subspan(1)) && extents->size() <= kMaxExtents);
}

void check_url(ByteView input) {
  const Result<Target> target = parse_url(as_text(input));
  if (!target) {
    SPATE_CHECK(target.code() == Errc::kBadAddress);
    return;
  }
  if (target->kind != Target::Kind::kAny) SPATE_CHECK(fabric_address(*target).size() <= kMaxAddress);
}

void run(std::uint8_t kind, ByteView input) {
  switch (kind) {
    case 0: return check_packet(input);
    case 1: return check_extents(input);
    case 2:
      if (const auto hello = decode_hello(input)) SPATE_CHECK(decode_hello(encode(*hello)) == hello);
      return;
    case 3:
      if (const auto welcome = decode_welcome(input)) SPATE_CHECK(decode_welcome(encode(*welcome)) == welcome);
      return;
    case 4: return check_url(input);
    default: return;
  }
}

}  // namespace
}  // namespace spate::bmi::ofi

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  spate::bmi::ofi::run(data[0], {reinterpret_cast<const std::byte*>(data) + 1, size - 1});
  return 0;
}
