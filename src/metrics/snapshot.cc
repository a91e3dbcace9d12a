// SPDX-License-Identifier: Apache-2.0
#include "metrics/snapshot.h"

#include <algorithm>
#include <compare>
#include <tuple>

#include "base/codec.h"

namespace spate::metrics {
namespace {

constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kMaxName = 100;
constexpr std::size_t kMaxLabelValue = 300;
constexpr std::size_t kMaxLabels = 8;
constexpr std::size_t kMinSampleBytes = 4 + 4 + 1 + 8;
constexpr std::size_t kBucketBytes = 2 + 8;

std::strong_ordering order(const Sample& sample, std::string_view name, const Labels& labels) {
  if (const auto by_name = std::string_view(sample.name) <=> name; by_name != 0) return by_name;
  return sample.labels <=> labels;
}

void encode_histogram(const HistogramData& data, Encoder& encoder) {
  encoder.u64(data.sum);
  encoder.u64(data.max);
  encoder.u32(static_cast<std::uint32_t>(data.buckets.size()));
  for (const auto& bucket : data.buckets) {
    encoder.u16(bucket.index);
    encoder.u64(bucket.count);
  }
}

HistogramData decode_histogram(Decoder& decoder) {
  HistogramData data;
  data.sum = decoder.u64();
  data.max = decoder.u64();
  const std::uint32_t n = decoder.count(kBucketBytes);
  if (n > kBuckets) decoder.fail();
  for (std::uint32_t i = 0; decoder.ok() && i < n; ++i) {
    HistogramData::Bucket bucket;
    bucket.index = decoder.u16();
    bucket.count = decoder.u64();
    const bool ascending = data.buckets.empty() || data.buckets.back().index < bucket.index;
    if (bucket.index >= kBuckets || bucket.count == 0 || !ascending) decoder.fail();
    data.buckets.push_back(bucket);
  }
  return data;
}

void encode_sample(const Sample& sample, Encoder& encoder) {
  encoder.text(sample.name);
  encoder.u32(static_cast<std::uint32_t>(sample.labels.size()));
  for (const auto& [name, value] : sample.labels) {
    encoder.text(name);
    encoder.text(value);
  }
  encoder.u8(static_cast<std::uint8_t>(sample.kind));
  if (sample.kind == MetricKind::kHistogram) {
    encode_histogram(sample.histogram, encoder);
  } else {
    encoder.i64(sample.value);
  }
}

bool valid_label_name(std::string_view name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

Sample decode_sample(Decoder& decoder) {
  Sample sample;
  sample.name = decoder.text(kMaxName);
  if (!valid_metric_name(sample.name)) decoder.fail();
  const std::uint32_t labels = decoder.count(8);
  if (labels > kMaxLabels) decoder.fail();
  for (std::uint32_t i = 0; decoder.ok() && i < labels; ++i) {
    std::string name = decoder.text(kMaxName);
    if (!valid_label_name(name)) decoder.fail();
    sample.labels.emplace_back(std::move(name), decoder.text(kMaxLabelValue));
  }
  const std::uint8_t kind = decoder.u8();
  if (kind > static_cast<std::uint8_t>(MetricKind::kHistogram)) decoder.fail();
  sample.kind = static_cast<MetricKind>(kind);
  if (decoder.ok() && sample.kind == MetricKind::kHistogram) {
    sample.histogram = decode_histogram(decoder);
  } else {
    sample.value = decoder.i64();
  }
  return sample;
}

}  // namespace

bool valid_metric_name(std::string_view name) {
  return name.size() <= kMaxName && name.starts_with("spate_") && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

const Sample* Snapshot::find(std::string_view name, const Labels& labels) const {
  const auto at = std::partition_point(samples_.begin(), samples_.end(),
                                       [&](const Sample& s) { return order(s, name, labels) < 0; });
  return at != samples_.end() && order(*at, name, labels) == 0 ? &*at : nullptr;
}

Result<void> Snapshot::add(Sample sample) {
  const auto at = std::partition_point(samples_.begin(), samples_.end(),
                                       [&](const Sample& s) { return order(s, sample.name, sample.labels) < 0; });
  if (at == samples_.end() || order(*at, sample.name, sample.labels) != 0) {
    samples_.insert(at, std::move(sample));
    return {};
  }
  if (at->kind != sample.kind) return Error(Errc::kConflict, "metric " + sample.name + " has two kinds");
  // Wraps as the counters themselves do.
  at->value =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(at->value) + static_cast<std::uint64_t>(sample.value));
  at->histogram.add(sample.histogram);
  return {};
}

Result<void> Snapshot::merge(const Snapshot& other) {
  for (const Sample& sample : other.samples_) {
    SPATE_TRY(std::ignore, add(sample));
  }
  return {};
}

Snapshot Snapshot::since(const Snapshot& before) const {
  Snapshot difference = *this;
  for (Sample& sample : difference.samples_) {
    const Sample* const old = before.find(sample.name, sample.labels);
    if (old == nullptr || old->kind != sample.kind) continue;
    if (sample.kind == MetricKind::kCounter && sample.value >= old->value) sample.value -= old->value;
    if (sample.kind == MetricKind::kHistogram && sample.histogram.includes(old->histogram))
      sample.histogram.subtract(old->histogram);
  }
  return difference;
}

void Snapshot::encode(Bytes& out) const {
  Encoder encoder(out);
  encoder.u16(kVersion);
  encoder.u32(static_cast<std::uint32_t>(samples_.size()));
  for (const Sample& sample : samples_) encode_sample(sample, encoder);
}

Result<Snapshot> Snapshot::decode(ByteView bytes) {
  Decoder decoder(bytes);
  const std::uint16_t version = decoder.u16();
  if (decoder.ok() && version != kVersion) {
    return Error(Errc::kVersionMismatch, "metrics snapshot of version " + std::to_string(version));
  }
  const std::uint32_t n = decoder.count(kMinSampleBytes);
  Snapshot snapshot;
  for (std::uint32_t i = 0; decoder.ok() && i < n; ++i) {
    Sample sample = decode_sample(decoder);
    // Ordered and unique, as encode() wrote them; so every snapshot has one encoding.
    if (i > 0 && order(snapshot.samples_.back(), sample.name, sample.labels) >= 0) decoder.fail();
    snapshot.samples_.push_back(std::move(sample));
  }
  SPATE_TRY(std::ignore, decoder.finish("metrics snapshot"));
  return snapshot;
}

}  // namespace spate::metrics
