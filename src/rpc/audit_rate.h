// SPDX-License-Identifier: Apache-2.0
// AuditRate: how many lines of one kind may be written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace spate::rpc {

/// A bucket of lines that fills at a constant rate.
class LineBucket {
 public:
  LineBucket(double most, double per_second) : most_(most), per_second_(per_second), lines_(most) {}
  bool take(MonoTime now) {
    lines_ = lines_at(now);
    filled_ = std::max(filled_, now);
    if (lines_ < 1) return false;
    lines_ -= 1;
    return true;
  }
  bool full(MonoTime now) const { return lines_at(now) >= most_; }

 private:
  double lines_at(MonoTime now) const {
    const double seconds = std::max(0.0, std::chrono::duration<double>(now - filled_).count());
    return std::min(most_, lines_ + seconds * per_second_);
  }
  double most_;
  double per_second_;
  double lines_;
  MonoTime filled_;
};

/// Admits 200 lines at once and 5 a second in all; of one source, 20 at once and one a second. So a source that floods
/// leaves room for others, and a crowd of sources writes half a gigabyte a day at most (lines of 1 KiB). Pure.
class AuditRate {
 public:
  static constexpr double kMost = 200;
  static constexpr double kPerSecond = 5;
  static constexpr double kMostOfOne = 20;
  static constexpr double kPerSecondOfOne = 1;
  static constexpr std::size_t kSources = 1024;  // the most sources that are told apart; all others count as one

  /// Admits a line and returns how many lines were refused since the last admitted one. Nothing: refused.
  std::optional<std::uint64_t> admit(std::string_view source, MonoTime now) {
    if (of_source(source, now).take(now) && all_.take(now)) return std::exchange(suppressed_, 0);
    ++suppressed_;
    return std::nullopt;
  }

 private:
  LineBucket& of_source(std::string_view source, MonoTime now) {
    const auto found = sources_.find(source);
    if (found != sources_.end()) return found->second;
    if (sources_.size() >= kSources) {
      if (now > next_sweep_) std::erase_if(sources_, [now](const auto& one) { return one.second.full(now); });
      next_sweep_ = std::max(next_sweep_, now + std::chrono::seconds(1));
    }
    if (sources_.size() >= kSources) return others_;
    return sources_.emplace(source, LineBucket(kMostOfOne, kPerSecondOfOne)).first->second;
  }

  LineBucket all_{kMost, kPerSecond};
  LineBucket others_{kMostOfOne, kPerSecondOfOne};
  std::map<std::string, LineBucket, std::less<>> sources_;
  MonoTime next_sweep_;
  std::uint64_t suppressed_ = 0;
};

}  // namespace spate::rpc
