// SPDX-License-Identifier: Apache-2.0
#include "dist/twod_stripe.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"

namespace spate {
namespace {

constexpr std::string_view kTwodStripeName = "twod_stripe";
constexpr std::uint8_t kTwodStripeVersion = 1;
constexpr std::uint64_t kMostFactor = 65536;

Result<void> check_groups(const TwodStripe::Groups& groups) {
  if (groups.count < 1 || groups.count > kMaxSlots)
    return bad_parameters(kTwodStripeName, "there are 1 to " + std::to_string(kMaxSlots) + " groups");
  if (groups.factor < 1 || groups.factor > kMostFactor)
    return bad_parameters(kTwodStripeName,
                          "a group has 1 to " + std::to_string(kMostFactor) + " rounds before the next one");
  return {};
}

/// Decodes the stored parameters: version u8, groups u16, factor u32.
Result<TwodStripe::Groups> decode_groups(ByteView parameters) {
  Decoder in(parameters);
  if (in.u8() != kTwodStripeVersion)
    return bad_parameters(kTwodStripeName, "the parameters' form is not known to this version of Spate");
  TwodStripe::Groups groups;
  groups.count = in.u16();
  groups.factor = in.u32();
  if (!in.ok() || in.remaining() > 0) return bad_parameters(kTwodStripeName, "the parameters have the wrong length");
  SPATE_TRY(std::ignore, check_groups(groups));
  return groups;
}

Result<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    return bad_parameters(kTwodStripeName, "groups and rounds are two numbers, as in twod_stripe:2,16");
  return number;
}

class TwodStripeType final : public DistributionType {
 public:
  std::uint8_t kind() const override { return 4; }
  std::string_view name() const override { return kTwodStripeName; }
  std::string_view summary() const override {
    return "GROUPS,FACTOR: strips over one group of slots for FACTOR rounds, then over the next group";
  }
  std::vector<std::string> examples() const override { return {"1,1", "3,2", "2,16"}; }

  Result<Bytes> parse(std::string_view text) const override {
    const std::size_t comma = std::min(text.find(','), text.size());
    TwodStripe::Groups groups;
    SPATE_TRY(groups.count, parse_number(text.substr(0, comma)));
    SPATE_TRY(groups.factor, parse_number(text.substr(std::min(comma + 1, text.size()))));
    SPATE_TRY(std::ignore, check_groups(groups));
    Bytes parameters;
    Encoder out(parameters);
    out.u8(kTwodStripeVersion);
    out.u16(static_cast<std::uint16_t>(groups.count));
    out.u32(static_cast<std::uint32_t>(groups.factor));
    return parameters;
  }

  Result<std::string> describe(ByteView parameters) const override {
    SPATE_TRY(const TwodStripe::Groups groups, decode_groups(parameters));
    return std::to_string(groups.count) + "," + std::to_string(groups.factor);
  }

  Result<std::size_t> slots(ByteView parameters, std::size_t wanted, std::size_t most) const override {
    SPATE_TRY(const TwodStripe::Groups groups, decode_groups(parameters));
    if (most < groups.count)
      return bad_parameters(kTwodStripeName, std::to_string(groups.count) +
                                                 " groups need as many slots, and there are targets for " +
                                                 std::to_string(most));
    return std::max(wanted / groups.count, std::size_t{1}) * groups.count;
  }

  Result<std::unique_ptr<const Distribution>> make(const Shape& shape) const override {
    SPATE_TRY(const TwodStripe::Groups groups, decode_groups(shape.parameters));
    if (shape.slots % groups.count != 0)
      return bad_parameters(kTwodStripeName, "the slots do not form groups of one size");
    return std::unique_ptr<const Distribution>(std::make_unique<TwodStripe>(shape.slots, shape.strip_bytes, groups));
  }
};

}  // namespace

const DistributionType& twod_stripe_type() {
  static const TwodStripeType type;
  return type;
}

TwodStripe::TwodStripe(std::size_t slots, std::uint64_t strip_bytes, Groups groups)
    : groups_(groups),
      group_slots_(slots / groups.count),
      strip_bytes_(strip_bytes),
      share_bytes_(groups.factor * strip_bytes),
      turn_bytes_(group_slots_ * share_bytes_) {
  SPATE_CHECK(slots >= 1 && slots <= kMaxSlots && slots % groups.count == 0);
  SPATE_CHECK(strip_bytes >= 1 && strip_bytes <= kMaxStripBytes);
  SPATE_CHECK(groups.factor >= 1 && groups.factor <= kMostFactor);
}

Physical TwodStripe::to_physical(std::uint64_t logical) const {
  const std::uint64_t turn = logical / turn_bytes_;
  const std::uint64_t in_turn = logical - turn * turn_bytes_;
  const std::uint64_t strip = in_turn / strip_bytes_;
  const std::uint64_t slot = turn % groups_.count * group_slots_ + strip % group_slots_;
  const std::uint64_t before = turn / groups_.count * share_bytes_ + strip / group_slots_ * strip_bytes_;
  return {static_cast<std::uint32_t>(slot), before + in_turn - strip * strip_bytes_};
}

std::uint64_t TwodStripe::to_logical(std::uint32_t slot, std::uint64_t physical) const {
  const std::uint64_t round = physical / share_bytes_;
  // Checked before the multiplication: `physical` may be any number.
  if (round > kMaxFileBytes / (groups_.count * turn_bytes_)) return kMaxFileBytes;
  const std::uint64_t in_share = physical - round * share_bytes_;
  const std::uint64_t turn = round * groups_.count + slot / group_slots_;
  const std::uint64_t strip = in_share / strip_bytes_ * group_slots_ + slot % group_slots_;
  return std::min(turn * turn_bytes_ + strip * strip_bytes_ + in_share % strip_bytes_, kMaxFileBytes);
}

std::uint64_t TwodStripe::contiguous_bytes(std::uint64_t logical) const {
  if (slot_count() == 1) return kMaxFileBytes;
  return strip_bytes_ - logical % strip_bytes_;
}

std::uint64_t TwodStripe::physical_size(std::uint32_t slot, std::uint64_t logical_size) const {
  const std::uint64_t turn = logical_size / turn_bytes_;
  const std::uint64_t in_turn = logical_size - turn * turn_bytes_;
  const std::uint64_t group = slot / group_slots_;
  const std::uint64_t rounds = turn / groups_.count + (turn % groups_.count > group ? 1 : 0);
  if (turn % groups_.count != group) return rounds * share_bytes_;
  const std::uint64_t stripe = group_slots_ * strip_bytes_;
  const std::uint64_t in_stripe = in_turn % stripe;
  const std::uint64_t before = slot % group_slots_ * strip_bytes_;
  const std::uint64_t in_strip = in_stripe > before ? std::min(in_stripe - before, strip_bytes_) : 0;
  return rounds * share_bytes_ + in_turn / stripe * strip_bytes_ + in_strip;
}

}  // namespace spate
