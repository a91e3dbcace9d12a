// SPDX-License-Identifier: Apache-2.0
// A metrics snapshot as a table and as JSON.
#include "tools/stats_text.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tools/text.h"
#include "wire/data_path.h"

namespace spate::tools {
namespace {

constexpr std::string_view kRequests = "spate_rpc_request_ns";
constexpr std::string_view kFailures = "spate_rpc_failed_total";

std::string label_value(const metrics::Sample& sample, std::string_view label) {
  for (const auto& [name, value] : sample.labels) {
    if (name == label) return value;
  }
  return {};
}

std::int64_t failures_of(const metrics::Snapshot& snapshot, const std::string& op) {
  const metrics::Sample* const sample = snapshot.find(kFailures, {{"op", op}});
  return sample == nullptr ? 0 : sample->value;
}

std::string operation_row(const metrics::Snapshot& snapshot, const metrics::Sample& sample, double seconds) {
  const metrics::HistogramData& data = sample.histogram;
  const std::string op = label_value(sample, "op");
  const std::string rate = seconds > 0 ? fmt::format("{:>10.1f}", static_cast<double>(data.count()) / seconds) : "";
  return fmt::format("  {:<18} {:>10} {:>8}{} {:>10} {:>10} {:>10} {:>10}\n", op, data.count(),
                     failures_of(snapshot, op), rate, human_time(static_cast<std::uint64_t>(data.mean())),
                     human_time(data.percentile(0.5)), human_time(data.percentile(0.99)), human_time(data.max));
}

/// "flow_bytes_total path=cached", without the prefix that all names have.
std::string short_name(const metrics::Sample& sample) {
  std::string text = sample.name.substr(sample.name.find('_') + 1);
  for (const auto& [name, value] : sample.labels) text += fmt::format(" {}={}", name, value);
  return text;
}

std::string other_row(const metrics::Sample& sample) {
  const bool bytes = sample.name.find("_bytes") != std::string::npos;
  std::string value = std::to_string(sample.value);
  if (bytes && sample.value >= 0) value = human_size(static_cast<std::uint64_t>(sample.value));
  if (sample.kind == metrics::MetricKind::kHistogram) {
    const metrics::HistogramData& data = sample.histogram;
    const std::uint64_t half = data.percentile(0.5);
    const std::uint64_t most = data.percentile(0.99);
    const bool times = sample.name.ends_with("_ns");
    value = times ? fmt::format("{} times, p50 {}, p99 {}", data.count(), human_time(half), human_time(most))
                  : fmt::format("{} times, p50 {}, p99 {}", data.count(), half, most);
  }
  return fmt::format("  {:<52} {:>12}\n", short_name(sample), value);
}

std::int64_t flow_count(const metrics::Snapshot& snapshot, std::string_view what, const std::string& path,
                        const char* direction) {
  const metrics::Sample* const sample = snapshot.find(what, {{"path", path}, {"direction", direction}});
  return sample == nullptr ? 0 : sample->value;
}

/// Bytes by data path, and how often the servers' processors copied each of them. Empty if nothing was moved.
std::string path_table(const metrics::Snapshot& snapshot) {
  std::string rows;
  for (std::size_t i = 0; i < wire::kDataPathNames.size(); ++i) {
    const std::string path(i == 0 ? "inline" : wire::kDataPathNames[i]);  // flow::Counters names them so
    const std::int64_t read = flow_count(snapshot, "spate_flow_bytes_total", path, "read");
    const std::int64_t written = flow_count(snapshot, "spate_flow_bytes_total", path, "write");
    if (read + written <= 0) continue;
    const std::int64_t copied = flow_count(snapshot, "spate_flow_copied_bytes_total", path, "read") +
                                flow_count(snapshot, "spate_flow_copied_bytes_total", path, "write");
    rows += fmt::format("  {:<18} {:>10} {:>10} {:>16.1f}\n", path, human_size(static_cast<std::uint64_t>(read)),
                        human_size(static_cast<std::uint64_t>(written)),
                        static_cast<double>(copied) / static_cast<double>(read + written));
  }
  if (rows.empty()) return rows;
  return fmt::format("  {:<18} {:>10} {:>10} {:>16}\n", "data path", "read", "written", "copies per byte") + rows;
}

nlohmann::json to_json(const metrics::HistogramData& data) {
  return {{"count", data.count()},
          {"mean", data.mean()},
          {"p50", data.percentile(0.5)},
          {"p90", data.percentile(0.9)},
          {"p99", data.percentile(0.99)},
          {"p999", data.percentile(0.999)},
          {"max", data.max}};
}

}  // namespace

std::string stats_table(const metrics::Snapshot& snapshot, double seconds) {
  std::string operations;
  std::string others;
  for (const metrics::Sample& sample : snapshot.samples()) {
    if (sample.name == kRequests) {
      if (!sample.histogram.buckets.empty()) operations += operation_row(snapshot, sample, seconds);
    } else if (sample.name != kFailures && (sample.value != 0 || !sample.histogram.buckets.empty())) {
      others += other_row(sample);
    }
  }
  others = path_table(snapshot) + others;
  if (operations.empty()) return "  no requests\n" + others;
  const std::string rate = seconds > 0 ? fmt::format("{:>10}", "per s") : "";
  return fmt::format("  {:<18} {:>10} {:>8}{} {:>10} {:>10} {:>10} {:>10}\n", "operation", "count", "failed", rate,
                     "mean", "p50", "p99", "max") +
         operations + others;
}

nlohmann::json to_json(const metrics::Snapshot& snapshot) {
  nlohmann::json operations = nlohmann::json::object();
  nlohmann::json others = nlohmann::json::array();
  for (const metrics::Sample& sample : snapshot.samples()) {
    if (sample.name == kFailures) continue;
    if (sample.name == kRequests) {
      const std::string op = label_value(sample, "op");
      if (sample.histogram.buckets.empty()) continue;
      nlohmann::json& row = operations[op] = to_json(sample.histogram);
      row["failed"] = failures_of(snapshot, op);
      continue;
    }
    nlohmann::json& row = others.emplace_back();
    row["name"] = sample.name;
    for (const auto& [name, value] : sample.labels) row["labels"][name] = value;
    if (sample.kind == metrics::MetricKind::kHistogram) {
      row["histogram"] = to_json(sample.histogram);
    } else {
      row["value"] = sample.value;
    }
  }
  return {{"operations_ns", operations}, {"metrics", others}};
}

}  // namespace spate::tools
