// SPDX-License-Identifier: Apache-2.0
// Frontend: the POSIX calls of a test, on a file system of its own.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace spate::posix_test {

/// The result of a call: a number (>= 0) or a negative errno, and for some calls a text.
struct Outcome {
  std::int64_t number = 0;
  std::string text = {};
  friend bool operator==(const Outcome&, const Outcome&) = default;
};
std::string describe(const Outcome& outcome);

/// Paths are absolute, from the file system's root. Descriptors are small numbers in the order of opening.
class Frontend {
 public:
  virtual ~Frontend() = default;
  /// A link's target that begins at the root begins with this text instead of "/".
  virtual std::string root() const = 0;

  virtual Outcome open(const std::string& path, int flags, unsigned mode) = 0;
  /// `path` is relative to an open directory.
  virtual Outcome open_at(int directory, const std::string& path, int flags, unsigned mode) = 0;
  virtual Outcome close(int fd) = 0;
  virtual Outcome read(int fd, std::size_t size) = 0;
  virtual Outcome write(int fd, const std::string& data) = 0;
  virtual Outcome pread(int fd, std::size_t size, std::int64_t offset) = 0;
  virtual Outcome pwrite(int fd, const std::string& data, std::int64_t offset) = 0;
  virtual Outcome seek(int fd, std::int64_t offset, int whence) = 0;
  virtual Outcome ftruncate(int fd, std::int64_t size) = 0;
  virtual Outcome fallocate(int fd, int mode, std::int64_t offset, std::int64_t size) = 0;
  /// As told().
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

/// A modification time with these nanoseconds, and below these seconds, was set by utimens().
constexpr timespec kChosenTime{1'000'000, 6};

/// The result of a stat, in the form that both front ends use. It has the modification time if that was set by
/// utimens(), else -1.
Outcome told(const struct stat& st);

/// The folder in which the kernel's front end makes its own: on ext4, if possible. Other file systems answer some calls
/// differently.
std::string place_of_oracle();
bool is_ext4(const std::string& folder);

/// Calls of the kernel in a new folder at place_of_oracle(), which the destructor removes. Throws when it cannot be
/// made.
std::unique_ptr<Frontend> make_kernel_frontend();
/// The same in a folder that exists, which stays.
std::unique_ptr<Frontend> make_kernel_frontend(std::string folder);
/// `root`: root() of the kernel's front end.
std::unique_ptr<Frontend> make_spate_frontend(const std::string& root, std::uint64_t seed);

}  // namespace spate::posix_test
