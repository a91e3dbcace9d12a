// SPDX-License-Identifier: Apache-2.0
#include "tools/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tools/text.h"

namespace spate::tools {
namespace {

constexpr std::size_t kBarWidth = 20;

std::string rate_of(const Progress& progress, double seconds) {
  return human_size(static_cast<std::uint64_t>(static_cast<double>(progress.bytes) / std::max(seconds, 0.001))) + "/s";
}

/// 0..1: the share of the bytes, or of the files if they have no bytes.
double share_of(const Progress& progress) {
  const bool by_bytes = progress.total_bytes > 0;
  const auto done = static_cast<double>(by_bytes ? progress.bytes : progress.files);
  const auto total = static_cast<double>(by_bytes ? progress.total_bytes : progress.total_files);
  return total > 0 ? std::min(done / total, 1.0) : 0.0;
}

std::string bar(double share) {
  const auto full = static_cast<std::size_t>(share * static_cast<double>(kBarWidth));
  return "[" + std::string(full, '#') + std::string(kBarWidth - full, ' ') + "]";
}

/// "1.20/2.20 GiB", or with two units if they differ.
std::string parts_text(std::uint64_t done, std::uint64_t total) {
  const std::string part = human_size(done);
  const std::string whole = human_size(total);
  const std::size_t space = part.find(' ');
  return part.substr(space) == whole.substr(whole.find(' ')) ? part.substr(0, space) + "/" + whole : part + "/" + whole;
}

std::string time_left(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  if (whole < 100) return fmt::format("{} s left", whole);
  if (whole < 100 * 60) return fmt::format("{} min left", (whole + 59) / 60);
  return fmt::format("{} h left", (whole + 3599) / 3600);
}

}  // namespace

std::string progress_line(const Progress& progress, double seconds) {
  if (progress.total_files == 0)
    return fmt::format("{} files, {}, {}", progress.files, human_size(progress.bytes), rate_of(progress, seconds));
  const double share = share_of(progress);
  const std::uint64_t total = std::max(progress.total_bytes, progress.bytes);
  std::string line = fmt::format("{} {}%  {}  {}", bar(share), static_cast<int>(share * 100),
                                 parts_text(progress.bytes, total), rate_of(progress, seconds));
  // No estimate while the total still grows, or after too short a time.
  constexpr double kLeast = 0.01;
  if (progress.counted && share >= kLeast) line += "  " + time_left(seconds * (1 - share) / share);
  return line;
}

std::string progress_sum(const Progress& progress, double seconds) {
  const auto ns = static_cast<std::uint64_t>(std::max(seconds, 0.0) * 1e9);
  return fmt::format("{} files, {} in {}, {}", progress.files, human_size(progress.bytes), human_time(ns),
                     rate_of(progress, seconds));
}

}  // namespace spate::tools
