// SPDX-License-Identifier: Apache-2.0
// The conformance suite's world in shared memory.
#pragma once

#include "base/clock.h"
#include "bmi/module.h"
#include "tests/bmi/subject.h"

namespace spate::bmi::conformance {

/// Every process listens at an abstract name of its own.
class ShmWorld final : public World {
 public:
  explicit ShmWorld(Wrap wrap = {}) : wrap_(std::move(wrap)) {}
  Traits traits() const override;
  std::string scheme() const override { return "shm"; }
  Place start(const NetworkOptions& options) override;
  std::unique_ptr<Network> restart(const std::string& url, const NetworkOptions& options) override;
  std::string dead_url() override { return "shm://nobody-listens-here"; }

 private:
  SystemClock clock_;
  Wrap wrap_;
};

}  // namespace spate::bmi::conformance
