// SPDX-License-Identifier: Apache-2.0
// memory_copy: the memory that a killed process of a mount leaves to the next one.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/unique_fd.h"

namespace spate::cluster {

/// The memory for the next process is a copy, since a killed process runs on for a while here and must not change it.
inline UniqueFd memory_copy(int memory) {
  UniqueFd copy(::memfd_create("copy", MFD_CLOEXEC));
  const off_t size = ::lseek(memory, 0, SEEK_END);
  SPATE_CHECK(::ftruncate(copy.get(), size) == 0);
  for (off_t data = ::lseek(memory, 0, SEEK_DATA); data >= 0; data = ::lseek(memory, data, SEEK_DATA)) {
    const off_t hole = ::lseek(memory, data, SEEK_HOLE);
    Bytes bytes(static_cast<std::size_t>(hole - data));
    SPATE_CHECK(::pread(memory, bytes.data(), bytes.size(), data) == hole - data);
    SPATE_CHECK(::pwrite(copy.get(), bytes.data(), bytes.size(), data) == hole - data);
    data = hole;
  }
  return copy;
}

}  // namespace spate::cluster
