// SPDX-License-Identifier: Apache-2.0
#include "dist/varstrip.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/units.h"

namespace spate {
namespace {

constexpr std::string_view kVarStripName = "varstrip";
constexpr std::uint8_t kVarStripVersion = 1;
/// Stored parameters: version u8, then each strip as slot u16, bytes u64.
constexpr std::size_t kStripParameters = 2 + 8;
constexpr std::size_t kMostStored = (kMaxDistributionBytes - 1) / kStripParameters;
constexpr std::size_t kMostStrips = 65536;

std::size_t slots_named(const std::vector<VarStrip::Strip>& strips) {
  std::size_t most = 0;
  for (const VarStrip::Strip& strip : strips) most = std::max<std::size_t>(most, strip.slot + 1U);
  return most;
}

Result<void> check_strips(const std::vector<VarStrip::Strip>& strips) {
  if (strips.empty()) return bad_parameters(kVarStripName, "at least one strip is needed, as in varstrip:64 KiB,1 MiB");
  if (strips.size() > kMostStored)
    return bad_parameters(kVarStripName, "at most " + std::to_string(kMostStored) + " strips can be stored");
  std::vector<bool> used(kMaxSlots);
  for (const VarStrip::Strip& strip : strips) {
    if (strip.slot >= kMaxSlots)
      return bad_parameters(kVarStripName, "slots are numbered 0 to " + std::to_string(kMaxSlots - 1));
    if (strip.bytes < kMinStripBytes || strip.bytes > kMaxStripBytes)
      return bad_parameters(kVarStripName,
                            "a strip has " + format_size(kMinStripBytes) + " to " + format_size(kMaxStripBytes));
    used[strip.slot] = true;
  }
  for (std::size_t slot = 0; slot < slots_named(strips); ++slot) {
    if (!used[slot])
      return bad_parameters(kVarStripName,
                            "no strip is for slot " + std::to_string(slot) + ", though a later slot has one");
  }
  return {};
}

Result<std::vector<VarStrip::Strip>> decode_strips(ByteView parameters) {
  Decoder in(parameters);
  if (in.u8() != kVarStripVersion)
    return bad_parameters(kVarStripName, "the parameters' form is not known to this version of Spate");
  std::vector<VarStrip::Strip> strips;
  while (in.ok() && in.remaining() > 0) {
    const std::uint32_t slot = in.u16();
    strips.push_back({slot, in.u64()});
  }
  if (!in.ok()) return bad_parameters(kVarStripName, "the parameters end too early");
  SPATE_TRY(std::ignore, check_strips(strips));
  return strips;
}

/// Parses "[SLOT:]SIZE". `next`: the slot if the text names none.
Result<VarStrip::Strip> parse_strip(std::string_view text, std::uint32_t next) {
  VarStrip::Strip strip;
  strip.slot = next;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + colon, strip.slot);
    if (error != std::errc() || end != text.data() + colon)
      return bad_parameters(kVarStripName, "\"" + std::string(text.substr(0, std::min<std::size_t>(colon, 40))) +
                                               "\" is no slot's number");
    text.remove_prefix(colon + 1);
  }
  SPATE_TRY(strip.bytes, parse_size(text));
  return strip;
}

class VarStripType final : public DistributionType {
 public:
  std::uint8_t kind() const override { return 3; }
  std::string_view name() const override { return kVarStripName; }
  std::string_view summary() const override { return "strips of the listed sizes, [SLOT:]SIZE,..., which repeat"; }
  std::vector<std::string> examples() const override {
    return {"4 KiB", "0:1 MiB,2:4 KiB,1:64 KiB,0:5000", "64 KiB,1 MiB"};
  }

  Result<Bytes> parse(std::string_view text) const override {
    std::vector<VarStrip::Strip> strips;
    std::uint32_t next = 0;
    while (!text.empty()) {
      const std::size_t comma = std::min(text.find(','), text.size());
      SPATE_TRY(const VarStrip::Strip strip, parse_strip(text.substr(0, comma), next));
      strips.push_back(strip);
      if (strips.size() > kMostStored) break;
      next = strip.slot + 1;
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
    SPATE_TRY(std::ignore, check_strips(strips));
    Bytes parameters;
    Encoder out(parameters);
    out.u8(kVarStripVersion);
    for (const VarStrip::Strip& strip : strips) {
      out.u16(static_cast<std::uint16_t>(strip.slot));
      out.u64(strip.bytes);
    }
    return parameters;
  }

  Result<std::string> describe(ByteView parameters) const override {
    SPATE_TRY(const std::vector<VarStrip::Strip> strips, decode_strips(parameters));
    std::string text;
    std::uint32_t next = 0;
    for (const VarStrip::Strip& strip : strips) {
      if (!text.empty()) text += ',';
      if (strip.slot != next) text += std::to_string(strip.slot) + ":";
      text += format_size(strip.bytes);
      next = strip.slot + 1;
    }
    return text;
  }

  Result<std::size_t> slots(ByteView parameters, std::size_t, std::size_t most) const override {
    SPATE_TRY(const std::vector<VarStrip::Strip> strips, decode_strips(parameters));
    const std::size_t named = slots_named(strips);
    if (named > most)
      return bad_parameters(kVarStripName, "the list has strips for " + std::to_string(named) +
                                               " slots, and there are targets for " + std::to_string(most));
    return named;
  }

  Result<std::unique_ptr<const Distribution>> make(const Shape& shape) const override {
    SPATE_TRY(const std::vector<VarStrip::Strip> strips, decode_strips(shape.parameters));
    if (slots_named(strips) != shape.slots)
      return bad_parameters(kVarStripName, "the list does not fit the number of slots");
    return std::unique_ptr<const Distribution>(std::make_unique<VarStrip>(shape.slots, strips));
  }
};

}  // namespace

const DistributionType& varstrip_type() {
  static const VarStripType type;
  return type;
}

VarStrip::VarStrip(std::size_t slots, const std::vector<Strip>& strips) : share_(slots) {
  SPATE_CHECK(slots >= 1 && slots <= kMaxSlots && strips.size() <= kMostStrips);
  for (const Strip& strip : strips) {
    SPATE_CHECK(strip.slot < slots && strip.bytes >= 1 && strip.bytes <= kMaxStripBytes);
    SlotStrips& share = share_[strip.slot];
    share.strips.push_back(static_cast<std::uint32_t>(strips_.size()));
    strips_.push_back({round_bytes_, share.bytes, strip.bytes, strip.slot});
    share.bytes += strip.bytes;
    round_bytes_ += strip.bytes;
  }
  for (const SlotStrips& share : share_) SPATE_CHECK(share.bytes > 0);
}

const VarStrip::PlacedStrip& VarStrip::strip_at(std::uint64_t in_round) const {
  const auto after = std::upper_bound(strips_.begin(), strips_.end(), in_round,
                                      [](std::uint64_t at, const PlacedStrip& strip) { return at < strip.logical; });
  return *std::prev(after);
}

Physical VarStrip::to_physical(std::uint64_t logical) const {
  const std::uint64_t round = logical / round_bytes_;
  const std::uint64_t in_round = logical - round * round_bytes_;
  const PlacedStrip& strip = strip_at(in_round);
  return {strip.slot, round * share_[strip.slot].bytes + strip.physical + in_round - strip.logical};
}

std::uint64_t VarStrip::to_logical(std::uint32_t slot, std::uint64_t physical) const {
  const SlotStrips& share = share_[slot];
  const std::uint64_t round = physical / share.bytes;
  // Checked before the multiplication: `physical` may be any number.
  if (round > kMaxFileBytes / round_bytes_) return kMaxFileBytes;
  const std::uint64_t in_share = physical - round * share.bytes;
  const auto after = std::upper_bound(share.strips.begin(), share.strips.end(), in_share,
                                      [this](std::uint64_t at, std::uint32_t i) { return at < strips_[i].physical; });
  const PlacedStrip& strip = strips_[*std::prev(after)];
  return std::min(round * round_bytes_ + strip.logical + in_share - strip.physical, kMaxFileBytes);
}

std::uint64_t VarStrip::contiguous_bytes(std::uint64_t logical) const {
  if (share_.size() == 1) return kMaxFileBytes;
  const std::uint64_t in_round = logical % round_bytes_;
  const PlacedStrip& strip = strip_at(in_round);
  return strip.logical + strip.bytes - in_round;
}

std::uint64_t VarStrip::physical_size(std::uint32_t slot, std::uint64_t logical_size) const {
  const SlotStrips& share = share_[slot];
  const std::uint64_t round = logical_size / round_bytes_;
  const std::uint64_t in_round = logical_size - round * round_bytes_;
  // Find the slot's first strip that begins at or after `in_round`. The strip before it may be cut.
  const auto next = std::lower_bound(share.strips.begin(), share.strips.end(), in_round,
                                     [this](std::uint32_t i, std::uint64_t at) { return strips_[i].logical < at; });
  if (next == share.strips.begin()) return round * share.bytes;
  const PlacedStrip& strip = strips_[*std::prev(next)];
  return round * share.bytes + strip.physical + std::min(in_round - strip.logical, strip.bytes);
}

}  // namespace spate
