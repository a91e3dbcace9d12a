// SPDX-License-Identifier: Apache-2.0
// DeviceExtents: where a local file's extents end on its device, so that requests can be cut there.
#pragma once

#include <cstdint>
#include <vector>

#include "model/extent.h"

namespace spate::trove {

/// Asks the file system (FIEMAP) once for the part of the file in question, and again beyond that part. The answer is
/// only a hint: a wrong one changes the size of a request, never its result. Not thread-safe.
class DeviceExtents {
 public:
  /// Returns how much of [offset, offset + size) one request to the device should take, 1..size bytes: up to the end of
  /// its extent on the device, and at most kMaxRequestBytes. `offset` and `size` are multiples of 4096, and so are the
  /// cuts.
  std::uint64_t left_in(int fd, std::uint64_t offset, std::uint64_t size);

  /// Larger requests are cut, so that a device with several queues or channels uses all of them. Measured with
  /// bench/paths.
  static constexpr std::uint64_t kMaxRequestBytes = 512 * 1024;

 private:
  void ask(int fd, std::uint64_t offset, std::uint64_t size);
  std::uint64_t known_from_ = 0;
  std::uint64_t known_to_ = 0;
  std::vector<std::uint64_t> ends_;  // ascending: where one extent ends and another begins
};

}  // namespace spate::trove
