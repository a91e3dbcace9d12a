// SPDX-License-Identifier: Apache-2.0
#include "model/layout.h"

#include <algorithm>

#include "model/cluster_map.h"

namespace spate {
namespace {

constexpr TargetId kLastTarget = target_id(ServerId(kMaxServerId), kMaxTargetsPerServer - 1);

/// Slots of a mirrored file name groups, and each names one. The numbers of groups are above those of targets.
bool slots_fit(const Layout& layout) {
  if (layout.redundancy == Redundancy::kNone) return true;
  return std::ranges::all_of(
      layout.slots, [](const Slot& slot) { return slot.targets.size() == 1 && slot.targets.front() > kLastTarget; });
}

}  // namespace

void encode(Encoder& out, const DistributionSpec& spec) {
  out.u8(spec.kind);
  if (spec.kind != DistributionSpec::kSimpleStripe) out.blob(spec.parameters);
}

DistributionSpec decode_distribution(Decoder& in) {
  DistributionSpec spec;
  spec.kind = in.u8();
  if (spec.kind == 0) in.fail();
  if (spec.kind != DistributionSpec::kSimpleStripe) spec.parameters = to_bytes(in.blob(kMaxDistributionBytes));
  return in.ok() ? spec : DistributionSpec{};
}

void encode(Encoder& out, const Layout& layout) {
  out.u32(layout.generation);
  encode(out, layout.distribution);
  out.u8(static_cast<std::uint8_t>(layout.redundancy));
  out.u64(layout.strip_bytes);
  out.u32(static_cast<std::uint32_t>(layout.slots.size()));
  for (const Slot& slot : layout.slots) {
    out.u8(static_cast<std::uint8_t>(slot.targets.size()));
    for (const TargetId target : slot.targets) out.u32(target.value);
  }
}

Layout decode_layout(Decoder& in) {
  Layout layout;
  layout.generation = in.u32();
  layout.distribution = decode_distribution(in);
  layout.redundancy = static_cast<Redundancy>(in.u8());
  layout.strip_bytes = in.u64();
  const std::uint32_t slots = in.count(5);
  if (layout.redundancy > Redundancy::kMirror || layout.strip_bytes < kMinStripBytes ||
      layout.strip_bytes > kMaxStripBytes || slots < 1 || slots > kMaxSlots) {
    in.fail();
    return {};
  }
  layout.slots.resize(slots);
  for (Slot& slot : layout.slots) {
    const std::uint8_t targets = in.u8();
    if (targets < 1 || targets > kMaxReplicas) in.fail();
    for (unsigned i = 0; in.ok() && i < targets; ++i) slot.targets.emplace_back(in.u32());
  }
  if (!slots_fit(layout)) in.fail();
  return in.ok() ? layout : Layout{};
}

}  // namespace spate
