// SPDX-License-Identifier: Apache-2.0
#include "dist/simple_stripe.h"

#include <algorithm>

#include "base/check.h"

namespace spate {
namespace {

class SimpleStripeType final : public DistributionType {
 public:
  std::uint8_t kind() const override { return DistributionSpec::kSimpleStripe; }
  std::string_view name() const override { return "simple_stripe"; }
  std::string_view summary() const override { return "strips of one size, to all slots in turn"; }
  std::vector<std::string> examples() const override { return {""}; }
  Result<Bytes> parse(std::string_view text) const override { return without_parameters(*this, text); }
  Result<std::string> describe(ByteView parameters) const override { return without_parameters(*this, parameters); }
  Result<std::size_t> slots(ByteView, std::size_t wanted, std::size_t) const override { return wanted; }
  Result<std::unique_ptr<const Distribution>> make(const Shape& shape) const override {
    SPATE_TRY(std::ignore, without_parameters(*this, shape.parameters));
    return std::unique_ptr<const Distribution>(std::make_unique<SimpleStripe>(shape.slots, shape.strip_bytes));
  }
};

}  // namespace

const DistributionType& simple_stripe_type() {
  static const SimpleStripeType type;
  return type;
}

SimpleStripe::SimpleStripe(std::size_t slots, std::uint64_t strip_bytes)
    : slots_(slots), strip_bytes_(strip_bytes), stripe_bytes_(slots * strip_bytes) {
  SPATE_CHECK(slots >= 1 && slots <= kMaxSlots);
  SPATE_CHECK(strip_bytes >= 1 && strip_bytes <= kMaxStripBytes);
}

Physical SimpleStripe::to_physical(std::uint64_t logical) const {
  const std::uint64_t round = logical / stripe_bytes_;
  const std::uint64_t in_stripe = logical - round * stripe_bytes_;
  const std::uint64_t slot = in_stripe / strip_bytes_;
  return {static_cast<std::uint32_t>(slot), round * strip_bytes_ + in_stripe - slot * strip_bytes_};
}

std::uint64_t SimpleStripe::to_logical(std::uint32_t slot, std::uint64_t physical) const {
  const std::uint64_t round = physical / strip_bytes_;
  // Checked before the multiplication: `physical` may be any number.
  if (round > kMaxFileBytes / stripe_bytes_) return kMaxFileBytes;
  const std::uint64_t logical = round * stripe_bytes_ + slot * strip_bytes_ + physical - round * strip_bytes_;
  return std::min(logical, kMaxFileBytes);
}

std::uint64_t SimpleStripe::contiguous_bytes(std::uint64_t logical) const {
  if (slots_ == 1) return kMaxFileBytes;
  return strip_bytes_ - logical % strip_bytes_;
}

std::uint64_t SimpleStripe::physical_size(std::uint32_t slot, std::uint64_t logical_size) const {
  const std::uint64_t round = logical_size / stripe_bytes_;
  const std::uint64_t in_stripe = logical_size - round * stripe_bytes_;
  const std::uint64_t before = slot * strip_bytes_;  // bytes of a stripe that lie in earlier slots
  const std::uint64_t in_strip = in_stripe > before ? std::min(in_stripe - before, strip_bytes_) : 0;
  return round * strip_bytes_ + in_strip;
}

}  // namespace spate
