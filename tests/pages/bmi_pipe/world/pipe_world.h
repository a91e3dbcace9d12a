// SPDX-License-Identifier: Apache-2.0
// The conformance suite's world of Unix sockets.
#pragma once

#include "base/clock.h"
#include "bmi/module.h"
#include "tests/bmi/subject.h"

namespace spate::bmi::conformance {

/// Every process listens at a free name of its own.
class PipeWorld final : public World {
 public:
  explicit PipeWorld(Wrap wrap = {}) : wrap_(std::move(wrap)) {}
  Traits traits() const override;
  std::string scheme() const override { return "pipe"; }
  Place start(const NetworkOptions& options) override { return {restart({}, options), "pipe://*"}; }
  std::unique_ptr<Network> restart(const std::string& url, const NetworkOptions& options) override;
  std::string dead_url() override { return "pipe://nobody-listens-here"; }

 private:
  SystemClock clock_;
  Wrap wrap_;
};

}  // namespace spate::bmi::conformance
