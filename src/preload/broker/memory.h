// SPDX-License-Identifier: Apache-2.0
// Recognizes the memory of an open file (preload/shared_state.h). A descriptor comes from another process: it may refer
// to any file, and any file may have the same inode number.
#pragma once

#include <sys/types.h>

#include <compare>

#include "base/result.h"
#include "base/unique_fd.h"

namespace spate::preload {

/// Equal for two descriptors of the same file, and different for all other files while the file lives.
struct MemoryIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  explicit operator bool() const { return inode != 0; }
  friend auto operator<=>(const MemoryIdentity&, const MemoryIdentity&) = default;
};

/// Identifies any descriptor; empty if it is closed. Asks no file system, because one might not answer.
MemoryIdentity identity_of(int descriptor);

/// A new memfd of `size` bytes that nobody can make shorter or longer, and that only this user can open. Returns its
/// number, or -errno.
long make_memory(const char* name, std::size_t size);
/// Opens memory of make_memory() (`access`: O_RDONLY or O_RDWR) through any descriptor of it. kInvalidArgument: the
/// descriptor refers to something else, or to another user's memory.
Result<UniqueFd> open_memory(int descriptor, int access);

}  // namespace spate::preload
