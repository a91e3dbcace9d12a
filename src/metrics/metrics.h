// SPDX-License-Identifier: Apache-2.0
// Counter, Gauge, GaugeOf and Histogram: members of the class that they measure. Registry: reads them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "metrics/snapshot.h"

namespace spate::metrics {

class Metric;

/// Knows the metrics of one process (or of one server of a simulation). Outlives them. Thread-safe.
class Registry {
 public:
  Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;
  ~Registry();

  /// All present values. Metrics of the same name and labels (one per thread, say) are summed. Counters and histograms
  /// of destroyed objects stay in the sum, so that a counter never falls. Each value is read at its own time.
  Snapshot snapshot() const;

 private:
  friend class Metric;
  void attach(Metric& metric);
  void detach(Metric& metric);

  mutable std::mutex mutex_;
  std::vector<Metric*> metrics_;  // guarded by mutex_
  Snapshot retired_;              // guarded by mutex_
};

/// The base of the three kinds: identity and registration. Pinned.
class Metric {
 public:
  Metric(const Metric&) = delete;
  Metric& operator=(const Metric&) = delete;

 protected:
  /// `name`: spate_<folder>_<what>_<unit>, checked (SPATE_CHECK).
  Metric(Registry& registry, MetricKind kind, std::string name, Labels labels);
  virtual ~Metric() = default;
  /// A subclass calls attach() at the end of its constructor and detach() at the start of its destructor: it must be
  /// complete while other threads can read it.
  void attach() { registry_.attach(*this); }
  void detach() { registry_.detach(*this); }

 private:
  friend class Registry;
  virtual void read(Sample& out) const = 0;
  Sample sample() const;

  Registry& registry_;
  const MetricKind kind_;
  const std::string name_;
  const Labels labels_;
  std::size_t position_ = 0;  // in the registry's list; guarded by its mutex
};

/// Only grows. Thread-safe: a relaxed atomic.
class Counter final : public Metric {
 public:
  Counter(Registry& registry, std::string name, Labels labels = {});
  ~Counter() override { detach(); }
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  void read(Sample& out) const override;
  std::atomic<std::uint64_t> value_{0};
};

/// A counter that is kept elsewhere. Each read calls `value`, from any thread, under the registry's lock.
class CounterOf final : public Metric {
 public:
  /// `value`: grows only; may be called until this is destroyed.
  CounterOf(Registry& registry, std::string name, Labels labels, std::function<std::uint64_t()> value);
  ~CounterOf() override { detach(); }

 private:
  void read(Sample& out) const override;
  const std::function<std::uint64_t()> value_;
};

/// Goes up and down. Thread-safe: a relaxed atomic.
class Gauge final : public Metric {
 public:
  Gauge(Registry& registry, std::string name, Labels labels = {});
  ~Gauge() override { detach(); }
  void set(std::int64_t v) { value_.store(v, std::memory_order_relaxed); }
  void add(std::int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  void read(Sample& out) const override;
  std::atomic<std::int64_t> value_{0};
};

/// A gauge that is kept elsewhere. Each read calls `value`, from any thread, under the registry's lock.
class GaugeOf final : public Metric {
 public:
  /// `value`: never waits for a lock that is held while the registry is read; may be called until this is destroyed.
  GaugeOf(Registry& registry, std::string name, Labels labels, std::function<std::int64_t()> value);
  ~GaugeOf() override { detach(); }

 private:
  void read(Sample& out) const override;
  const std::function<std::int64_t()> value_;
};

/// Records any 64-bit values, such as nanoseconds or bytes, within 3.2%. Each takes 8 KiB of memory, so have one per
/// kind of event and thread, not one per file. Thread-safe: relaxed atomics.
class Histogram final : public Metric {
 public:
  Histogram(Registry& registry, std::string name, Labels labels = {});
  ~Histogram() override { detach(); }

  void record(std::uint64_t value) {
    counts_[bucket_of(value)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
    std::uint64_t max = max_.load(std::memory_order_relaxed);
    while (value > max && !max_.compare_exchange_weak(max, value, std::memory_order_relaxed)) {
    }
  }
  /// Nanoseconds; a negative duration counts as 0.
  void record(Duration span) { record(static_cast<std::uint64_t>(span.count() < 0 ? 0 : span.count())); }
  HistogramData data() const;

 private:
  void read(Sample& out) const override;
  std::array<std::atomic<std::uint64_t>, kBuckets> counts_{};
  std::atomic<std::uint64_t> sum_{0};
  std::atomic<std::uint64_t> max_{0};
};

/// Records its own lifetime in a histogram of nanoseconds.
class ScopedTimer {
 public:
  ScopedTimer(Histogram& histogram, const Clock& clock) : histogram_(histogram), clock_(clock), start_(clock.now()) {}
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;
  ~ScopedTimer() { histogram_.record(clock_.now() - start_); }

 private:
  Histogram& histogram_;
  const Clock& clock_;
  const MonoTime start_;
};

}  // namespace spate::metrics
