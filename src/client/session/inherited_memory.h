// SPDX-License-Identifier: Apache-2.0
// InheritedMemory: memory that the next process of a mount gets, with what this process has left in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace spate::client {

/// At the begin of the memory. Both are 0 as long as no process has finished making it.
struct MemoryMark {
  std::uint64_t magic = 0;
  std::uint64_t version = 0;
  friend bool operator==(const MemoryMark&, const MemoryMark&) = default;
};

/// The memory behind a descriptor, mapped as long as the object lives. All its pages are there from the start: a write
/// into memory that cannot be had would kill the process. Its size does not change while a process lives, and it is
/// not in core dumps. Movable.
class InheritedMemory {
 public:
  /// Maps the memory behind `fd`. If it is empty, gives it `bytes` bytes. Otherwise it keeps its size, which is at
  /// least `least`, or kVersionMismatch. A negative `fd`: memory of this process alone. `what` names it in errors.
  static Result<InheritedMemory> open(int fd, std::size_t bytes, std::size_t least, std::string_view what);

  std::byte* data() const { return mapped_.get(); }
  std::size_t size() const { return mapped_.get_deleter().bytes; }
  const MemoryMark& mark() const { return *reinterpret_cast<const MemoryMark*>(data()); }
  /// Says that the memory is made. Call it after the last other store.
  void set_mark(MemoryMark mark);
  /// kVersionMismatch.
  static Error of_another_version(std::string_view what);

 private:
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(std::byte* at) const;
  };
  explicit InheritedMemory(std::unique_ptr<std::byte, Unmap> mapped) : mapped_(std::move(mapped)) {}

  std::unique_ptr<std::byte, Unmap> mapped_;
};

}  // namespace spate::client
