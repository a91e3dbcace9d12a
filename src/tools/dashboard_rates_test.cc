// SPDX-License-Identifier: Apache-2.0
#include "tools/dashboard_rates.h"

#include <nlohmann/json.hpp>

#include "base/expect.h"
#include "metrics/metrics.h"

namespace spate::tools {
namespace {

TEST(DashboardRates, AreSumsOverTheServers) {
  metrics::Registry registry;
  metrics::Histogram reads(registry, "spate_rpc_request_ns", {{"op", "read"}});
  metrics::Histogram renames(registry, "spate_rpc_request_ns", {{"op", "rename"}});
  metrics::Histogram pings(registry, "spate_rpc_request_ns", {{"op", "ping"}});
  metrics::Histogram newer(registry, "spate_rpc_request_ns", {{"op", "no_such_op"}});
  metrics::Counter failed(registry, "spate_rpc_failed_total", {{"op", "read"}});
  metrics::Counter sent(registry, "spate_flow_bytes_total", {{"path", "cached"}, {"direction", "read"}});
  metrics::Counter got(registry, "spate_flow_bytes_total", {{"path", "inline"}, {"direction", "write"}});
  for (int i = 0; i < 20; ++i) reads.record(std::uint64_t{1000});
  renames.record(std::uint64_t{7});
  pings.record(std::uint64_t{1});
  newer.record(std::uint64_t{1});
  failed.add(4);
  sent.add(4096);
  got.add(100);
  const auto told = to_json(rates_of(registry.snapshot(), 2, 77));
  EXPECT_EQ(told["t"], 77);
  EXPECT_EQ(told["read"]["requests"], 10.0);
  EXPECT_NEAR(told["read"]["p99_ns"].get<double>(), 1000.0, 33.0);
  EXPECT_EQ(told["change"]["requests"], 0.5);
  EXPECT_EQ(told["look"]["requests"], 0.0);
  EXPECT_EQ(told["failed"], 2.0);
  EXPECT_EQ(told["read_bytes"], 2048.0);
  EXPECT_EQ(told["written_bytes"], 50.0);
}

TEST(DashboardRates, RemainingWorkIsReported) {
  metrics::Registry registry;
  metrics::Gauge removals(registry, "spate_server_meta_removals_pending");
  metrics::Gauge none(registry, "spate_test_none_pending");
  metrics::Gauge other(registry, "spate_test_open_files");
  removals.set(5);
  other.set(9);
  const auto work = pending_work(registry.snapshot());
  ASSERT_EQ(work.size(), 1U);
  EXPECT_EQ(work[0]["name"], "spate_server_meta_removals_pending");
  EXPECT_EQ(work[0]["left"], 5);
}

TEST(DashboardRates, AnFsckIsReportedSeparately) {
  metrics::Registry registry;
  metrics::Histogram scans(registry, "spate_rpc_request_ns", {{"op", "meta_scan"}});
  metrics::Histogram repairs(registry, "spate_rpc_request_ns", {{"op", "meta_repair"}});
  scans.record(std::uint64_t{1});
  EXPECT_EQ(fsck_work(registry.snapshot()), nlohmann::json({{"checks", 1}, {"repairs", 0}}));
  repairs.record(std::uint64_t{1});
  EXPECT_EQ(fsck_work(registry.snapshot())["repairs"], 1);
}

}  // namespace
}  // namespace spate::tools
