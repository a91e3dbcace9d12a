// SPDX-License-Identifier: Apache-2.0
// Frontend: the calls of POSIX as a test makes them, on a file system of its own.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace spate::posix_test {

/// What a call gave: a number (>= 0) or a negative errno, and perhaps text.
struct Outcome {
  std::int64_t number = 0;
  std::string text = {};
  friend bool operator==(const Outcome&, const Outcome&) = default;
};
std::string describe(const Outcome& outcome);

/// Paths are absolute and begin at the file system's root; descriptors are small numbers in order of opening.
class Frontend {
 public:
  virtual ~Frontend() = default;
  /// What stands before "/" in a link's target that begins at the root.
  virtual std::string root() const = 0;

  virtual Outcome open(const std::string& path, int flags, unsigned mode) = 0;
  /// Relative to an open directory.
  virtual Outcome open_at(int directory, const std::string& path, int flags, unsigned mode) = 0;
  virtual Outcome close(int fd) = 0;
  virtual Outcome read(int fd, std::size_t size) = 0;
  virtual Outcome write(int fd, const std::string& data) = 0;
  virtual Outcome pread(int fd, std::size_t size, std::int64_t offset) = 0;
  virtual Outcome pwrite(int fd, const std::string& data, std::int64_t offset) = 0;
  virtual Outcome seek(int fd, std::int64_t offset, int whence) = 0;
  virtual Outcome ftruncate(int fd, std::int64_t size) = 0;
  virtual Outcome fallocate(int fd, int mode, std::int64_t offset, std::int64_t size) = 0;
  /// Size, type and mode, link count; of a directory without its size.
  virtual Outcome fstat(int fd) = 0;
  virtual Outcome list(int fd) = 0;

  virtual Outcome stat(const std::string& path, bool follow) = 0;
  virtual Outcome access(const std::string& path, int wanted) = 0;
  virtual Outcome mkdir(const std::string& path, unsigned mode) = 0;
  virtual Outcome rmdir(const std::string& path) = 0;
  virtual Outcome unlink(const std::string& path) = 0;
  virtual Outcome symlink(const std::string& target, const std::string& path) = 0;
  virtual Outcome readlink(const std::string& path) = 0;
  virtual Outcome link(const std::string& existing, const std::string& path, bool follow) = 0;
  virtual Outcome rename(const std::string& from, const std::string& to, unsigned flags) = 0;
  virtual Outcome truncate(const std::string& path, std::int64_t size) = 0;
  virtual Outcome chmod(const std::string& path, unsigned mode) = 0;
  virtual Outcome mknod(const std::string& path, unsigned mode) = 0;
  virtual Outcome utimens(const std::string& path, std::int64_t atime_s, std::int64_t mtime_s) = 0;
  virtual Outcome setxattr(const std::string& path, const std::string& name, const std::string& value, int flags) = 0;
  virtual Outcome getxattr(const std::string& path, const std::string& name) = 0;
  virtual Outcome removexattr(const std::string& path, const std::string& name) = 0;
};

/// How both front ends tell of an object.
Outcome told(const struct stat& st);

/// Where the kernel's front end puts its folder: on ext4, where there is one. Other file systems answer some calls
/// otherwise.
std::string place_of_oracle();
bool is_ext4(const std::string& folder);

/// Null, with the reason, when no temporary folder can be made.
std::unique_ptr<Frontend> make_kernel_frontend();
/// `root`: the kernel front end's root().
std::unique_ptr<Frontend> make_spate_frontend(const std::string& root, std::uint64_t seed);

}  // namespace spate::posix_test
