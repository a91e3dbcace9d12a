// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include "metrics/help.h"
#include "metrics/snapshot.h"

namespace spate::metrics {
namespace {

std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

/// `{a="x",le="7"}`, or nothing if there are no labels.
std::string label_text(const Labels& labels, std::string_view le = {}) {
  std::string out;
  for (const auto& [name, value] : labels) {
    out.append(out.empty() ? "{" : ",").append(name).append("=\"").append(escaped(value)).append("\"");
  }
  if (!le.empty()) out.append(out.empty() ? "{" : ",").append("le=\"").append(le).append("\"");
  return out.empty() ? out : out + "}";
}

void line(std::string& out, const std::string& name, const std::string& labels, const std::string& value) {
  out.append(name).append(labels).append(" ").append(value).append("\n");
}

void head_lines(std::string& out, const std::string& name, std::string_view type, std::string_view help) {
  if (!help.empty()) out.append("# HELP ").append(name).append(" ").append(help).append("\n");
  out.append("# TYPE ").append(name).append(" ").append(type).append("\n");
}

/// Octave boundaries are bucket boundaries, so the cumulative counts at 2^k - 1 are exact.
void append_histogram(std::string& out, const Sample& sample) {
  const HistogramData& data = sample.histogram;
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < data.buckets.size(); ++i) {
    seen += data.buckets[i].count;
    const auto octave = [&](std::size_t at) { return std::bit_width(bucket_low(data.buckets[at].index)); };
    if (i + 1 < data.buckets.size() && octave(i) == octave(i + 1)) continue;
    const std::uint64_t bound = octave(i) >= 64 ? UINT64_MAX : (1ULL << octave(i)) - 1;
    line(out, sample.name + "_bucket", label_text(sample.labels, std::to_string(bound)), std::to_string(seen));
  }
  line(out, sample.name + "_bucket", label_text(sample.labels, "+Inf"), std::to_string(seen));
  line(out, sample.name + "_sum", label_text(sample.labels), std::to_string(data.sum));
  line(out, sample.name + "_count", label_text(sample.labels), std::to_string(seen));
}

}  // namespace

std::string Snapshot::prometheus() const {
  constexpr std::string_view kTypes[] = {"counter", "gauge", "histogram"};
  constexpr std::string_view kHelpOfMaximum = "The largest value of the histogram since the server started.";
  std::string out;
  // Samples of one name are adjacent and have one TYPE line; the maxima of histograms are gauges of their own.
  for (std::size_t begin = 0, end = 0; begin < samples_.size(); begin = end) {
    const Sample& first = samples_[begin];
    for (end = begin; end < samples_.size() && samples_[end].name == first.name; ++end) {
    }
    head_lines(out, first.name, kTypes[static_cast<std::size_t>(first.kind)], help_of(first.name));
    for (std::size_t i = begin; i < end; ++i) {
      if (samples_[i].kind == MetricKind::kHistogram) {
        append_histogram(out, samples_[i]);
      } else {
        line(out, samples_[i].name, label_text(samples_[i].labels), std::to_string(samples_[i].value));
      }
    }
    if (first.kind != MetricKind::kHistogram) continue;
    head_lines(out, first.name + "_max", "gauge", kHelpOfMaximum);
    for (std::size_t i = begin; i < end; ++i) {
      line(out, samples_[i].name + "_max", label_text(samples_[i].labels), std::to_string(samples_[i].histogram.max));
    }
  }
  return out;
}

}  // namespace spate::metrics
