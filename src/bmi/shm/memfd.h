// SPDX-License-Identifier: Apache-2.0
// Mapping: memory shared by descriptor. Nothing of it has a name, so nothing is left behind by whoever dies.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace spate::bmi::shm {

/// A mapped run of shared memory; unmapped when destroyed. Move-only.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : view_(std::exchange(other.view_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  /// `size` > 0 bytes of `fd` from its beginning.
  static Result<Mapping> of(int fd, std::uint64_t size, bool writable);

  MutableByteView view() const { return view_; }
  explicit operator bool() const { return !view_.empty(); }

 private:
  MutableByteView view_;
};

/// Memory without a name, of exactly `size` bytes for ever (sealed), zeroed; pages are there when first touched.
Result<UniqueFd> make_memory(const char* purpose, std::uint64_t size);

/// Foreign memory may be mapped without fear of SIGBUS: memfd pages (no file that can be cut off, no huge pages that
/// may be missing), sealed against shrinking, at least `size` bytes. kProtocol says what is wrong.
Result<void> check_foreign_memory(int fd, std::uint64_t size);

/// The same memory by a descriptor that cannot be mapped for writing; none where /proc is missing.
UniqueFd read_only_copy(int fd);

}  // namespace spate::bmi::shm
