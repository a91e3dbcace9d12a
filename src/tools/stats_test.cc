// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/expect.h"
#include "metrics/metrics.h"
#include "tools/stats_text.h"

namespace spate::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

metrics::Snapshot snapshot() {
  metrics::Registry registry;
  metrics::Histogram creates(registry, "spate_rpc_request_ns", {{"op", "create"}});
  metrics::Histogram reads(registry, "spate_rpc_request_ns", {{"op", "read"}});
  metrics::Counter failed(registry, "spate_rpc_failed_total", {{"op", "create"}});
  metrics::Counter bytes(registry, "spate_flow_bytes_total", {{"path", "cached"}});
  metrics::Histogram waits(registry, "spate_server_meta_lease_wait_ns");
  waits.record(2'000'000);
  metrics::Counter none(registry, "spate_rpc_refused_total");
  for (std::uint64_t us = 1; us <= 100; ++us) creates.record(us * 1000);
  failed.add(3);
  bytes.add(3U << 20U);
  return registry.snapshot();
}

TEST(Stats, TableHasARowForEachRequestedOperation) {
  const std::string text = stats_table(snapshot(), 0);
  EXPECT_THAT(text, testing::ContainsRegex("create +100 +3 +50.5 us +[45][0-9.]+ us +[0-9.]+ us +100 us\n"));
  EXPECT_THAT(text, Not(HasSubstr("read")));
  EXPECT_THAT(text, testing::ContainsRegex("flow_bytes_total path=cached +3.00 MiB\n"));
  EXPECT_THAT(text, testing::ContainsRegex("meta_lease_wait_ns +1 times, p50 [12][0-9.]+ ms, p99 [12][0-9.]+ ms\n"));
  EXPECT_THAT(text, Not(HasSubstr("refused")));
}

TEST(Stats, RatesAreShownForASpanOfTime) {
  EXPECT_THAT(stats_table(snapshot(), 4), testing::ContainsRegex("create +100 +3 +25.0 "));
  EXPECT_THAT(stats_table(metrics::Snapshot(), 4), HasSubstr("no requests"));
}

TEST(Stats, JsonHasNanoseconds) {
  const nlohmann::json json = to_json(snapshot());
  EXPECT_EQ(json["operations_ns"]["create"]["count"], 100);
  EXPECT_EQ(json["operations_ns"]["create"]["failed"], 3);
  EXPECT_EQ(json["operations_ns"]["create"]["max"], 100'000);
  EXPECT_FALSE(json["operations_ns"].contains("read")) << json["operations_ns"];
  EXPECT_EQ(json["metrics"][0]["name"], "spate_flow_bytes_total");
  EXPECT_EQ(json["metrics"][0]["labels"]["path"], "cached");
  EXPECT_EQ(json["metrics"][0]["value"], 3 << 20);
}

}  // namespace
}  // namespace spate::tools
