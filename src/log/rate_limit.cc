// SPDX-License-Identifier: Apache-2.0
#include "log/rate_limit.h"

#include <fmt/format.h>

namespace spate::log {

std::optional<Suppressed> RateLimit::admit() {
  const std::int64_t now = clock_.now().since_start.count();
  std::int64_t next = next_ns_.load(std::memory_order_relaxed);
  // When several threads find the interval over, one wins the exchange and logs.
  if (now < next || !next_ns_.compare_exchange_strong(next, now + interval_.count(), std::memory_order_relaxed)) {
    suppressed_.fetch_add(1, std::memory_order_relaxed);
    return std::nullopt;
  }
  return Suppressed{suppressed_.exchange(0, std::memory_order_relaxed)};
}

Suppressed RateLimit::reset() {
  next_ns_.store(INT64_MIN, std::memory_order_relaxed);
  return Suppressed{suppressed_.exchange(0, std::memory_order_relaxed)};
}

}  // namespace spate::log

fmt::appender fmt::formatter<spate::log::Suppressed>::format(spate::log::Suppressed suppressed,
                                                             fmt::format_context& context) const {
  if (suppressed.count == 0) return context.out();
  return fmt::format_to(context.out(), " ({} more suppressed)", suppressed.count);
}
