// SPDX-License-Identifier: Apache-2.0
// HeavyHitters: counts of the keys that ask for most, in bounded memory.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "wire/session_messages.h"

namespace spate::rpc {

/// A request that was answered.
struct Served {
  wire::LoadKind kind = wire::LoadKind::kLook;
  bool failed = false;
  Duration time{};          // from arrival to answer
  std::uint64_t bytes = 0;  // of file data
};

/// Keeps counts for the busiest keys of about the last minute. If there is no room for a new key, it replaces the key
/// with the least weight and begins with that weight. So a key with more than 1/most of the whole weight is never
/// missing. Source: SPACESAVING, sec. 3, with weights that fall by half every kHalfLife. One executor. `About`: a wire
/// struct with since_ns and kinds. `Weight`: double, or a number that counts how often it is compared.
template <typename Key, typename About, typename Weight = double>
class HeavyHitters {
 public:
  static constexpr Duration kHalfLife = std::chrono::seconds(10);
  /// One request weighs as much as this many bytes of data, since it costs about as much.
  static constexpr double kBytesOfARequest = 64.0 * 1024;

  /// `begun`: the moment from which the times in the results count.
  HeavyHitters(MonoTime begun, std::size_t most) : begun_(begun), halved_(begun), most_(most) {}

  /// `about()` makes the description of a new key. Constant time; for a new key O(log most), averaged over many calls.
  template <typename MakeAbout>
  void note(Key key, const Served& served, MonoTime now, MakeAbout about) {
    halve(now);
    auto found = entries_.find(key);
    if (found == entries_.end()) {
      const Weight weight = entries_.size() >= most_ ? drop_least() : Weight(0);
      found = entries_.emplace(key, Entry{about(), {}, weight}).first;
      found->second.about.since_ns = since_begin(now);
      bounds_.push_back({weight, key});
      std::push_heap(bounds_.begin(), bounds_.end(), heavier);
    }
    add(found->second.counts.at(static_cast<std::size_t>(served.kind)),
        {1, served.failed ? 1U : 0U, static_cast<std::uint64_t>(std::max(served.time, Duration(0)).count()),
         served.bytes});
    found->second.weight += 1 + static_cast<double>(served.bytes) / kBytesOfARequest;
  }

  std::uint64_t since_begin(MonoTime now) const { return static_cast<std::uint64_t>((now - begun_).count()); }
  std::vector<About> list() const {
    std::vector<About> all;
    all.reserve(entries_.size());
    for (const auto& [key, entry] : entries_) {
      all.push_back(entry.about);
      all.back().kinds = {entry.counts.begin(), entry.counts.end()};
    }
    return all;
  }
  /// The sums of the counts of all keys that were replaced.
  std::vector<wire::LoadCounts> others() const { return {others_.begin(), others_.end()}; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  using Counts = std::array<wire::LoadCounts, wire::kLoadKinds>;
  struct Entry {
    About about;  // without its kinds
    Counts counts{};
    Weight weight{};
  };

  /// A weight that a key has at least.
  struct Bound {
    Weight weight{};
    Key key;
  };
  static bool heavier(const Bound& a, const Bound& b) { return a.weight > b.weight; }

  static void add(wire::LoadCounts& sum, const wire::LoadCounts& more) {
    sum.requests += more.requests;
    sum.failed += more.failed;
    sum.time_ns += more.time_ns;
    sum.bytes += more.bytes;
  }
  /// Removes the key with the least weight, adds its counts to those of the others, and returns the weight. Corrects
  /// the least bound until it is the weight of its key: every other key then has at least this weight.
  Weight drop_least() {
    for (;;) {
      std::pop_heap(bounds_.begin(), bounds_.end(), heavier);
      const auto least = entries_.find(bounds_.back().key);
      const Weight weight = least->second.weight;
      if (weight > bounds_.back().weight) {
        bounds_.back().weight = weight;
        std::push_heap(bounds_.begin(), bounds_.end(), heavier);
        continue;
      }
      bounds_.pop_back();
      for (std::size_t i = 0; i < others_.size(); ++i) add(others_.at(i), least->second.counts.at(i));
      entries_.erase(least);
      ++dropped_;
      return weight;
    }
  }
  void halve(MonoTime now) {
    const auto times = (now - halved_) / kHalfLife;
    if (times < 1) return;
    halved_ = halved_ + kHalfLife * times;
    const double part = std::exp2(-static_cast<double>(std::min<std::int64_t>(times, 1000)));
    for (auto& [key, entry] : entries_) entry.weight *= part;
    for (Bound& bound : bounds_) bound.weight *= part;  // keeps their order
  }

  const MonoTime begun_;
  MonoTime halved_;
  const std::size_t most_;
  std::unordered_map<Key, Entry> entries_;
  std::vector<Bound> bounds_;  // a heap with the least first; one for each entry
  Counts others_{};
  std::uint64_t dropped_ = 0;
};

}  // namespace spate::rpc
