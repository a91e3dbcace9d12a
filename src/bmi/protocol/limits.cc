// SPDX-License-Identifier: Apache-2.0
#include "bmi/protocol/limits.h"

namespace spate::bmi::protocol {

void put_limits(Encoder& out, const Limits& limits) {
  out.u64(limits.window);
  out.u64(limits.max_unexpected);
  out.u32(limits.max_announced);
  out.u32(limits.max_packet);
}

Limits get_limits(Decoder& in) {
  constexpr std::uint64_t kMaxWindow = std::uint64_t{1} << 40U;
  Limits limits;
  limits.window = in.u64();
  limits.max_unexpected = in.u64();
  limits.max_announced = in.u32();
  limits.max_packet = in.u32();
  if (limits.window > kMaxWindow || limits.max_unexpected > kMaxWindow) in.fail();
  return limits;
}

}  // namespace spate::bmi::protocol
