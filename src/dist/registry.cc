// SPDX-License-Identifier: Apache-2.0
#include "dist/registry.h"

#include <array>

#include "dist/basic.h"
#include "dist/simple_stripe.h"
#include "dist/twod_stripe.h"
#include "dist/varstrip.h"

namespace spate {
namespace {

Result<const DistributionType*> type_of(std::uint8_t kind) {
  for (const DistributionType* type : distribution_types()) {
    if (type->kind() == kind) return type;
  }
  return Error(Errc::kNotSupported, "this version of Spate does not know distribution " + std::to_string(kind));
}

}  // namespace

std::span<const DistributionType* const> distribution_types() {
  static const auto types = std::to_array<const DistributionType*>({
      &simple_stripe_type(),  // the default
      &basic_type(),
      &varstrip_type(),
      &twod_stripe_type(),
  });
  return types;
}

Result<DistributionSpec> parse_distribution(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view parameters = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  std::string known;
  for (const DistributionType* type : distribution_types()) {
    if (type->name() == name) {
      SPATE_TRY(Bytes stored, type->parse(parameters));
      return DistributionSpec{type->kind(), std::move(stored)};
    }
    known += (known.empty() ? "" : ", ") + std::string(type->name());
  }
  return Error(Errc::kInvalidArgument,
               "there is no distribution \"" + std::string(name.substr(0, 40)) + "\"; there are: " + known);
}

std::string describe(const DistributionSpec& spec) {
  const auto type = type_of(spec.kind);
  const auto parameters = type ? (*type)->describe(spec.parameters) : type.error();
  if (!parameters) return "distribution " + std::to_string(spec.kind);
  return std::string((*type)->name()) + (parameters->empty() ? "" : ":" + *parameters);
}

Result<std::size_t> slots_of(const DistributionSpec& spec, std::size_t wanted, std::size_t most) {
  SPATE_TRY(const DistributionType* const type, type_of(spec.kind));
  return type->slots(spec.parameters, wanted, most);
}

Result<std::unique_ptr<const Distribution>> make_distribution(const DistributionSpec& spec, std::uint64_t strip_bytes,
                                                              std::size_t slots) {
  if (slots < 1 || slots > kMaxSlots)
    return Error(Errc::kInvalidArgument, "the number of slots of a layout is out of range");
  if (strip_bytes < kMinStripBytes || strip_bytes > kMaxStripBytes) {
    return Error(Errc::kInvalidArgument, "the strip size of a layout is out of range");
  }
  SPATE_TRY(const DistributionType* const type, type_of(spec.kind));
  return type->make({spec.parameters, strip_bytes, slots});
}

Result<std::unique_ptr<const Distribution>> make_distribution(const Layout& layout) {
  return make_distribution(layout.distribution, layout.strip_bytes, layout.slots.size());
}

}  // namespace spate
