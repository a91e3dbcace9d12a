// SPDX-License-Identifier: Apache-2.0
// The conformance suite's world over a libfabric provider.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "bmi/module.h"
#include "tests/bmi/subject.h"

namespace spate::bmi::conformance {

/// `suffix`: "tcp", "verbs", "shm"; `node`: the address of this host in it.
class OfiWorld final : public World {
 public:
  explicit OfiWorld(std::string suffix, Wrap wrap = {}, std::string node = "127.0.0.1");
  Traits traits() const override;
  std::string scheme() const override { return "ofi+" + suffix_; }
  Place start(const NetworkOptions& options) override;
  std::unique_ptr<Network> restart(const std::string& url, const NetworkOptions& options) override;
  std::string dead_url() override { return dead_url_; }

 private:
  SystemClock clock_;
  std::string suffix_;
  std::string node_;
  Wrap wrap_;
  UniqueFd dead_;  // bound but not listening, so that its port refuses and nobody else gets it
  std::string dead_url_;
};

}  // namespace spate::bmi::conformance
