// SPDX-License-Identifier: Apache-2.0
#include "tools/dashboard_rates.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "rpc/loads.h"

namespace spate::tools {
namespace {

constexpr std::string_view kPending = "_pending";
constexpr std::array<const char*, wire::kLoadKinds> kNamesOfKinds = {"read", "write", "look", "change"};

std::string_view label_of(const metrics::Sample& sample, std::string_view label) {
  for (const auto& [name, value] : sample.labels) {
    if (name == label) return value;
  }
  return {};
}

/// The kind of load that the operation `op` counts as. Nothing if it is no load, or only a newer server knows it.
std::optional<wire::LoadKind> kind_of(std::string_view op) {
#define SPATE_DASHBOARD_OP(id, number, text, ...) \
  if (op == #text) return rpc::load_kind(wire::Op::k##id);
  SPATE_OPERATIONS(SPATE_DASHBOARD_OP)
#undef SPATE_DASHBOARD_OP
  return std::nullopt;
}

std::uint64_t count_of(const metrics::Snapshot& change, const std::string& op) {
  const metrics::Sample* const sample = change.find("spate_rpc_request_ns", {{"op", op}});
  return sample == nullptr ? 0 : sample->histogram.count();
}

}  // namespace

RatePoint rates_of(const metrics::Snapshot& change, double seconds, std::int64_t time_ms) {
  RatePoint point;
  point.time_ms = time_ms;
  std::array<metrics::HistogramData, wire::kLoadKinds> latencies;
  for (const metrics::Sample& sample : change.samples()) {
    if (sample.name == "spate_rpc_request_ns") {
      const auto kind = kind_of(label_of(sample, "op"));
      if (kind) latencies.at(static_cast<std::size_t>(*kind)).add(sample.histogram);
    } else if (sample.name == "spate_rpc_failed_total") {
      point.failed += static_cast<double>(sample.value) / seconds;
    } else if (sample.name == "spate_flow_bytes_total") {
      double& bytes = label_of(sample, "direction") == "write" ? point.written_bytes : point.read_bytes;
      bytes += static_cast<double>(sample.value) / seconds;
    }
  }
  for (std::size_t i = 0; i < latencies.size(); ++i) {
    const metrics::HistogramData& data = latencies.at(i);
    point.kinds.at(i) = {static_cast<double>(data.count()) / seconds, data.percentile(0.5), data.percentile(0.99)};
  }
  return point;
}

nlohmann::json to_json(const RatePoint& point) {
  nlohmann::json told = {{"t", point.time_ms},
                         {"read_bytes", point.read_bytes},
                         {"written_bytes", point.written_bytes},
                         {"failed", point.failed}};
  for (std::size_t i = 0; i < point.kinds.size(); ++i) {
    const RatePoint::Kind& kind = point.kinds.at(i);
    told[kNamesOfKinds.at(i)] = {{"requests", kind.requests}, {"p50_ns", kind.p50_ns}, {"p99_ns", kind.p99_ns}};
  }
  return told;
}

nlohmann::json pending_work(const metrics::Snapshot& snapshot) {
  nlohmann::json work = nlohmann::json::array();
  for (const metrics::Sample& sample : snapshot.samples()) {
    if (sample.kind == metrics::MetricKind::kGauge && sample.name.ends_with(kPending) && sample.value > 0)
      work.push_back({{"name", sample.name}, {"left", sample.value}});
  }
  return work;
}

nlohmann::json fsck_work(const metrics::Snapshot& change) {
  const std::uint64_t checks = count_of(change, "meta_scan") + count_of(change, "datafile_list") +
                               count_of(change, "datafile_probe") + count_of(change, "meta_judge");
  return {{"checks", checks}, {"repairs", count_of(change, "meta_repair")}};
}

}  // namespace spate::tools
