// SPDX-License-Identifier: Apache-2.0
// Mapping: memory that processes share by descriptor. It has no name, so a process that dies leaves nothing behind.
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

  /// Maps the first `size` (> 0) bytes of `fd`.
  static Result<Mapping> of(int fd, std::uint64_t size, bool writable);

  MutableByteView view() const { return view_; }
  explicit operator bool() const { return !view_.empty(); }

 private:
  MutableByteView view_;
};

/// Makes memory without a name, of exactly `size` bytes for ever (sealed), and zeroed. A page costs memory once it is
/// touched.
Result<UniqueFd> make_memory(const char* purpose, std::uint64_t size);

/// Checks that mapping foreign memory cannot cause SIGBUS: it must be a memfd of normal pages, sealed against
/// shrinking, of at least `size` bytes. kProtocol: the error says what is wrong.
Result<void> check_foreign_memory(int fd, std::uint64_t size);

/// A descriptor of the same memory that cannot be mapped for writing. Empty where /proc is missing.
UniqueFd read_only_copy(int fd);

}  // namespace spate::bmi::shm
