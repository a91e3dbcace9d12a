// SPDX-License-Identifier: Apache-2.0
// The conformance suite's world over loopback.
#pragma once

#include "base/clock.h"
#include "base/unique_fd.h"
#include "bmi/module.h"
#include "bmi/tcp/tcp_module.h"
#include "tests/bmi/subject.h"

namespace spate::bmi::conformance {

/// Every process listens on 127.0.0.1, at a port that the kernel chooses.
class TcpWorld final : public World {
 public:
  /// `secure`: by tcp+tls, with one key for all.
  explicit TcpWorld(Wrap wrap = {}, tcp::TcpOptions options = {}, bool secure = false);
  Traits traits() const override;
  std::string scheme() const override { return secure_ ? "tcp+tls" : "tcp"; }
  Place start(const NetworkOptions& options) override;
  std::unique_ptr<Network> restart(const std::string& url, const NetworkOptions& options) override;
  std::string dead_url() override { return dead_url_; }

 private:
  SystemClock clock_;
  Wrap wrap_;
  const tcp::TcpOptions options_;
  const bool secure_;
  UniqueFd dead_;  // bound but not listening, so that its port refuses and nobody else gets it
  std::string dead_url_;
};

}  // namespace spate::bmi::conformance
