// SPDX-License-Identifier: Apache-2.0
// The same few calls by two front ends: the C library (over a mount, the preload library or a local file system), and
// libspate.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

namespace spate::bench {

/// One thread at a time. Calls return -errno on failure.
class Calls {
 public:
  using File = std::intptr_t;

  virtual ~Calls() = default;
  virtual File open(const std::string& path, int flags) = 0;
  virtual int close(File file) = 0;
  virtual ssize_t pread(File file, void* memory, std::size_t size, off_t offset) = 0;
  virtual ssize_t pwrite(File file, const void* memory, std::size_t size, off_t offset) = 0;
  virtual int fsync(File file) = 0;
  /// Drops the file's clean pages from the kernel's cache, if there are any.
  virtual int drop_pages(File file) = 0;
  virtual int stat(const std::string& path) = 0;
  virtual int unlink(const std::string& path) = 0;
};

std::unique_ptr<Calls> system_calls();
/// `where`: the path of spate.toml. Returns null, and prints the reason on stderr, when it cannot be used.
std::unique_ptr<Calls> native_calls(const std::string& where);

}  // namespace spate::bench
