// SPDX-License-Identifier: Apache-2.0
// MetricsPage: a server's HTTP page: /metrics for Prometheus, /healthz for a program that restarts dead servers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "metrics/metrics.h"

struct MHD_Daemon;

namespace spate::daemon {

/// Serves from start() until it is destroyed, on a thread of its own: a scraper never holds up the server. It keeps at
/// most 16 connections, closes one that moves nothing for 10 s, and reads at most 16 KiB of a request; the others wait
/// in the kernel's queue. It answers GET and HEAD of every client that can reach its address.
class MetricsPage {
 public:
  /// `address`: "PORT" of 127.0.0.1, or "HOST:PORT" ("[::]:9464") with a number of this machine; port 0: a free one.
  /// `healthy`: called by that thread, at each /healthz. The registry stays until this is destroyed.
  static Result<std::unique_ptr<MetricsPage>> start(const std::string& address, const metrics::Registry& registry,
                                                    std::function<bool()> healthy);
  ~MetricsPage();
  MetricsPage(const MetricsPage&) = delete;
  MetricsPage& operator=(const MetricsPage&) = delete;

  /// "http://127.0.0.1:9464"
  const std::string& url() const { return url_; }

 private:
  friend class MetricsAnswer;
  MetricsPage(const metrics::Registry& registry, std::function<bool()> healthy);

  const metrics::Registry& registry_;
  const std::function<bool()> healthy_;
  MHD_Daemon* daemon_ = nullptr;
  std::string url_;
};

}  // namespace spate::daemon
