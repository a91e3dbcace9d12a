// SPDX-License-Identifier: Apache-2.0
// What bmi_tcp_bench compares with: the same transfers by plain epoll sockets on loopback, and how much is transferred.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace spate::bmi {

inline constexpr std::size_t kSmall = 64;  // bytes of a message in round trips
inline constexpr int kRounds = 20'000;
inline constexpr std::uint64_t kStreamBytes = std::uint64_t{1} << 30U;

inline double now() {  // in seconds
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Microseconds a round trip. `spin`: both sides poll instead of sleeping.
double raw_round_trip(bool spin);
/// GB/s of pieces of `size` bytes, out of memory, or by sendfile out of `file` unless that is negative.
double raw_stream(std::uint64_t size, int file);

}  // namespace spate::bmi
