// SPDX-License-Identifier: Apache-2.0
// The reference for bmi_tcp_bench: the same transfers over plain epoll sockets on loopback, and their sizes.
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

/// Microseconds of a round trip. `spin`: both sides poll instead of sleeping.
double raw_round_trip(bool spin);
/// GB/s of pieces of `size` bytes. They come from memory if `file` is negative, otherwise from `file` by sendfile.
double raw_stream(std::uint64_t size, int file);

}  // namespace spate::bmi
