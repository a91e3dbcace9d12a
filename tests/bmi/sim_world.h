// SPDX-License-Identifier: Apache-2.0
// The conformance suite's world in virtual time.
#pragma once

#include "bmi/sim/fabric.h"
#include "tests/bmi/subject.h"

namespace spate::bmi::conformance {

/// Process i is node i. Streams overtake each other and packets are late, as the seed decides.
class SimWorld final : public World {
 public:
  explicit SimWorld(Wrap wrap = {}, std::uint64_t seed = 1);
  Traits traits() const override;
  std::string scheme() const override { return "sim"; }
  Place start(const NetworkOptions& options) override;
  std::unique_ptr<Network> restart(const std::string& url, const NetworkOptions& options) override;
  std::string dead_url() override { return "sim://4000000000"; }
  bool wait(std::span<const Waiter> waiters) override;

 private:
  std::unique_ptr<Network> make(std::uint32_t node, const NetworkOptions& options);

  ManualClock clock_;
  SeededRandom random_;
  sim::Fabric fabric_;
  Wrap wrap_;
  std::uint32_t nodes_ = 0;
};

}  // namespace spate::bmi::conformance
