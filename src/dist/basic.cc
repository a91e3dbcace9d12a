// SPDX-License-Identifier: Apache-2.0
#include "dist/basic.h"

#include "dist/simple_stripe.h"

namespace spate {
namespace {

class BasicType final : public DistributionType {
 public:
  std::uint8_t kind() const override { return 2; }
  std::string_view name() const override { return "basic"; }
  std::string_view summary() const override { return "the whole file on one target"; }
  std::vector<std::string> examples() const override { return {""}; }
  Result<Bytes> parse(std::string_view text) const override { return without_parameters(*this, text); }
  Result<std::string> describe(ByteView parameters) const override { return without_parameters(*this, parameters); }
  Result<std::size_t> slots(ByteView, std::size_t, std::size_t) const override { return 1; }
  Result<std::unique_ptr<const Distribution>> make(const Shape& shape) const override {
    SPATE_TRY(std::ignore, without_parameters(*this, shape.parameters));
    if (shape.slots != 1) return bad_parameters(name(), "a file has one slot");
    // A stripe over one slot is the identity.
    return std::unique_ptr<const Distribution>(std::make_unique<SimpleStripe>(1, shape.strip_bytes));
  }
};

}  // namespace

const DistributionType& basic_type() {
  static const BasicType type;
  return type;
}

}  // namespace spate
