// SPDX-License-Identifier: Apache-2.0
#include "metrics/metrics.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

#include "base/codec.h"
#include "base/expect.h"
#include "base/random.h"
#include "metrics/help.h"

namespace spate::metrics {
namespace {

using testing::HasSubstr;

TEST(Buckets, CoverEveryValueOnceAndNarrowly) {
  for (std::size_t i = 0; i < kBuckets; ++i) {
    ASSERT_EQ(bucket_of(bucket_low(i)), i);
    ASSERT_EQ(bucket_of(bucket_high(i)), i);
    if (i == 0) continue;
    ASSERT_EQ(bucket_high(i - 1) + 1, bucket_low(i));
    const double middle = static_cast<double>(bucket_low(i)) / 2 + static_cast<double>(bucket_high(i)) / 2;
    ASSERT_LE((middle - static_cast<double>(bucket_low(i))) / static_cast<double>(bucket_low(i)), 0.032);
  }
  EXPECT_EQ(bucket_low(0), 0U);
  EXPECT_EQ(bucket_high(kBuckets - 1), UINT64_MAX);
}

TEST(Histogram, PercentilesAreWithinTheBoundOfTheExactOnes) {
  Registry registry;
  Histogram histogram(registry, "spate_test_wait_ns");
  SeededRandom random(1);
  std::vector<std::uint64_t> values;
  // From nanoseconds to hours, with equally many values in each octave.
  for (int i = 0; i < 20'000; ++i) values.push_back(random.next() >> (20 + random.below(44)));
  std::uint64_t sum = 0;
  for (const std::uint64_t v : values) {
    histogram.record(v);
    sum += v;
  }
  std::sort(values.begin(), values.end());
  const HistogramData data = histogram.data();
  EXPECT_EQ(data.count(), values.size());
  EXPECT_EQ(data.sum, sum);
  EXPECT_EQ(data.max, values.back());
  EXPECT_DOUBLE_EQ(data.mean(), static_cast<double>(sum) / static_cast<double>(values.size()));
  for (const double p : {0.0, 0.01, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::max(1.0, p * static_cast<double>(values.size())));
    const auto exact = static_cast<double>(values[rank - 1]);
    EXPECT_NEAR(static_cast<double>(data.percentile(p)), exact, exact * 0.033) << p;
  }
}

TEST(Histogram, EmptyAndExtremeValues) {
  Registry registry;
  Histogram histogram(registry, "spate_test_wait_ns");
  EXPECT_EQ(histogram.data().percentile(0.5), 0U);
  EXPECT_EQ(histogram.data().mean(), 0.0);
  histogram.record(std::chrono::nanoseconds(-5));
  EXPECT_EQ(histogram.data().max, 0U);
  EXPECT_EQ(histogram.data().count(), 1U);
  histogram.record(UINT64_MAX);
  EXPECT_EQ(histogram.data().percentile(1.0), UINT64_MAX);
}

TEST(Histogram, ScopedTimerRecordsTheClocksTime) {
  Registry registry;
  Histogram histogram(registry, "spate_test_wait_ns");
  ManualClock clock;
  {
    const ScopedTimer timer(histogram, clock);
    clock.advance(std::chrono::microseconds(5));
  }
  EXPECT_EQ(histogram.data().max, 5000U);
}

TEST(Registry, SumsMetricsWithTheSameNameAndLabels) {
  Registry registry;
  Counter a(registry, "spate_test_reads_total", {{"path", "direct"}});
  Counter b(registry, "spate_test_reads_total", {{"path", "direct"}});
  Counter c(registry, "spate_test_reads_total", {{"path", "cached"}});
  Gauge gauge(registry, "spate_test_open_files");
  a.add(2);
  b.add(3);
  c.add();
  gauge.add(-4);
  const Snapshot snapshot = registry.snapshot();
  EXPECT_EQ(snapshot.samples().size(), 3U);
  EXPECT_EQ(snapshot.find("spate_test_reads_total", {{"path", "direct"}})->value, 5);
  EXPECT_EQ(snapshot.find("spate_test_reads_total", {{"path", "cached"}})->value, 1);
  EXPECT_EQ(snapshot.find("spate_test_open_files")->value, -4);
  EXPECT_EQ(snapshot.find("spate_test_reads_total"), nullptr);
}

TEST(Registry, ACounterKeepsItsValueWhenItsObjectIsDestroyed) {
  Registry registry;
  auto first = std::make_unique<Counter>(registry, "spate_test_reads_total");
  Counter second(registry, "spate_test_reads_total");
  std::optional<Gauge> gauge;
  gauge.emplace(registry, "spate_test_open_files");
  gauge->set(9);
  first->add(2);
  second.add(1);
  first.reset();
  gauge.reset();
  EXPECT_EQ(registry.snapshot().find("spate_test_reads_total")->value, 3);
  EXPECT_EQ(registry.snapshot().find("spate_test_open_files"), nullptr);
}

TEST(Registry, ThreadsMayCountReadAndLeaveAtTheSameTime) {
  Registry registry;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&registry] {
      for (int round = 0; round < 20; ++round) {
        Histogram histogram(registry, "spate_test_wait_ns");
        for (int i = 0; i < 50; ++i) histogram.record(static_cast<std::uint64_t>(i));
      }
    });
  }
  for (int i = 0; i < 20; ++i) EXPECT_LE(registry.snapshot().samples().size(), 1U);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(registry.snapshot().find("spate_test_wait_ns")->histogram.count(), 3000U);
}

TEST(RegistryDeathTest, ANameOutsideTheRuleIsABug) {
  Registry registry;
  EXPECT_DEATH(Counter(registry, "reads"), "check failed");
  EXPECT_DEATH(Counter(registry, "spate_test_Reads"), "check failed");
}

Snapshot sample_snapshot(std::int64_t reads, std::uint64_t wait) {
  Registry registry;
  Counter counter(registry, "spate_test_reads_total", {{"path", "a\"b\\c\n"}});
  Histogram histogram(registry, "spate_test_wait_ns");
  Gauge gauge(registry, "spate_test_open_files");
  counter.add(static_cast<std::uint64_t>(reads));
  gauge.set(-1);
  histogram.record(wait);
  histogram.record(3);
  return registry.snapshot();
}

TEST(Snapshot, MergeAddsOverServers) {
  Snapshot a = sample_snapshot(2, 100);
  ASSERT_OK(a.merge(sample_snapshot(5, 2000)));
  EXPECT_EQ(a.find("spate_test_reads_total", {{"path", "a\"b\\c\n"}})->value, 7);
  const HistogramData& wait = a.find("spate_test_wait_ns")->histogram;
  EXPECT_EQ(wait.count(), 4U);
  EXPECT_EQ(wait.sum, 2106U);
  EXPECT_EQ(wait.max, 2000U);
  EXPECT_EQ(wait.buckets.size(), 3U);
}

TEST(Snapshot, SinceYieldsTheChangeInBetween) {
  const Snapshot before = sample_snapshot(2, 100);
  Snapshot now = before;
  ASSERT_OK(now.merge(sample_snapshot(5, 2000)));
  const Snapshot between = now.since(before);
  EXPECT_EQ(between.find("spate_test_reads_total", {{"path", "a\"b\\c\n"}})->value, 5);
  const HistogramData& wait = between.find("spate_test_wait_ns")->histogram;
  EXPECT_EQ(wait.count(), 2U);
  EXPECT_EQ(wait.sum, 2003U);
  EXPECT_EQ(wait.max, 2000U);
  EXPECT_EQ(between.find("spate_test_open_files")->value, -2);  // a gauge is not subtracted
  EXPECT_THAT(now.since(now).find("spate_test_wait_ns")->histogram.buckets, testing::IsEmpty());
}

TEST(Snapshot, SinceARestartEverythingCounts) {
  const Snapshot after = sample_snapshot(2, 100);
  const Snapshot since = after.since(sample_snapshot(5, 2000));
  EXPECT_EQ(since.find("spate_test_reads_total", {{"path", "a\"b\\c\n"}})->value, 2);
  EXPECT_EQ(since.find("spate_test_wait_ns")->histogram, after.find("spate_test_wait_ns")->histogram);
}

TEST(Snapshot, MergeRefusesAnotherKind) {
  Snapshot a;
  Sample counter;
  counter.name = "spate_test_x";
  Sample gauge = counter;
  gauge.kind = MetricKind::kGauge;
  ASSERT_OK(a.add(counter));
  EXPECT_ERRC(a.add(gauge), Errc::kConflict);
}

TEST(Snapshot, DecodeEncodeIsTheIdentityAndEveryPrefixIsRefused) {
  const Snapshot snapshot = sample_snapshot(2, 100);
  Bytes bytes;
  snapshot.encode(bytes);
  const auto back = Snapshot::decode(bytes);
  ASSERT_OK(back);
  EXPECT_EQ(*back, snapshot);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_ERRC(Snapshot::decode(ByteView(bytes).first(n)), Errc::kCorrupt) << n;
  }
  bytes.push_back(std::byte{0});
  EXPECT_ERRC(Snapshot::decode(bytes), Errc::kCorrupt);
  bytes[0] = std::byte{9};
  EXPECT_ERRC(Snapshot::decode(bytes), Errc::kVersionMismatch);
}

TEST(Snapshot, DecodeRefusesWhatEncodeNeverWrites) {
  const auto one = [](std::string_view name, std::uint16_t bucket, std::uint64_t count) {
    Bytes bytes;
    Encoder encoder(bytes);
    encoder.u16(1);
    encoder.u32(1);
    encoder.text(name);
    encoder.u32(0);
    encoder.u8(2);
    encoder.u64(0);
    encoder.u64(0);
    encoder.u32(1);
    encoder.u16(bucket);
    encoder.u64(count);
    return Snapshot::decode(bytes).code();
  };
  EXPECT_EQ(one("spate_x", 0, 1), Errc::kOk);
  EXPECT_EQ(one("spate_x\n# forged", 0, 1), Errc::kCorrupt);
  EXPECT_EQ(one("spate_x", kBuckets, 1), Errc::kCorrupt);
  EXPECT_EQ(one("spate_x", 0, 0), Errc::kCorrupt);
}

TEST(Snapshot, PrometheusText) {
  EXPECT_EQ(sample_snapshot(2, 100).prometheus(),
            "# TYPE spate_test_open_files gauge\n"
            "spate_test_open_files -1\n"
            "# TYPE spate_test_reads_total counter\n"
            "spate_test_reads_total{path=\"a\\\"b\\\\c\\n\"} 2\n"
            "# TYPE spate_test_wait_ns histogram\n"
            "spate_test_wait_ns_bucket{le=\"3\"} 1\n"
            "spate_test_wait_ns_bucket{le=\"127\"} 2\n"
            "spate_test_wait_ns_bucket{le=\"+Inf\"} 2\n"
            "spate_test_wait_ns_sum 103\n"
            "spate_test_wait_ns_count 2\n"
            "# HELP spate_test_wait_ns_max The largest value of the histogram since the server started.\n"
            "# TYPE spate_test_wait_ns_max gauge\n"
            "spate_test_wait_ns_max 100\n");
}

TEST(Registry, ReadsCountersThatAreKeptElsewhere) {
  Registry registry;
  std::uint64_t kept = 5;
  {
    const CounterOf counter(registry, "spate_test_bytes_total", {{"module", "tcp"}}, [&kept] { return kept; });
    EXPECT_EQ(registry.snapshot().find("spate_test_bytes_total", {{"module", "tcp"}})->value, 5);
    kept = 8;
    EXPECT_EQ(registry.snapshot().find("spate_test_bytes_total", {{"module", "tcp"}})->value, 8);
  }
  kept = 100;  // nobody reads it any more; its last value stays
  EXPECT_EQ(registry.snapshot().find("spate_test_bytes_total", {{"module", "tcp"}})->value, 8);
}

TEST(Registry, ReadsGaugesThatAreKeptElsewhere) {
  Registry registry;
  std::int64_t kept = 5;
  {
    const GaugeOf gauge(registry, "spate_test_free_bytes", {{"store", "a"}}, [&kept] { return kept; });
    EXPECT_EQ(registry.snapshot().find("spate_test_free_bytes", {{"store", "a"}})->value, 5);
    kept = -3;
    EXPECT_EQ(registry.snapshot().find("spate_test_free_bytes", {{"store", "a"}})->value, -3);
  }
  EXPECT_EQ(registry.snapshot().find("spate_test_free_bytes", {{"store", "a"}}), nullptr);
}

TEST(Help, DescribesEachMetricOfSpate) {
  EXPECT_EQ(help_of("spate_rpc_failed_total"), "Requests that failed, by operation.");
  EXPECT_EQ(help_of("spate_rpc_failed"), "");
  EXPECT_EQ(help_of("zzz"), "");
  Registry registry;
  const Gauge leases(registry, "spate_server_io_leases");
  EXPECT_THAT(
      registry.snapshot().prometheus(),
      testing::StartsWith(
          "# HELP spate_server_io_leases Datafiles that clients of this machine read or write by themselves now.\n"
          "# TYPE spate_server_io_leases gauge\n"));
}

}  // namespace
}  // namespace spate::metrics
