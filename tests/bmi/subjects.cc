// SPDX-License-Identifier: Apache-2.0
// The modules under test, and what does not hold for one of them.
#include <array>

#include "tests/bmi/sim_world.h"
#include "tests/bmi/subject.h"

namespace spate::bmi::conformance {

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all{
      {"sim", [] { return std::make_unique<SimWorld>(); }},
  };
  return all;
}

namespace {
struct Exclusion {
  std::string_view subject;
  std::string_view test;
  std::string_view reason;
};
// One line each: subject, test, why. Must shrink.
constexpr std::array<Exclusion, 0> kExclusions{};
}  // namespace

std::string_view exclusion(std::string_view subject, std::string_view test) {
  for (const Exclusion& e : kExclusions) {
    if (e.subject == subject && e.test == test) return e.reason;
  }
  return {};
}

}  // namespace spate::bmi::conformance
