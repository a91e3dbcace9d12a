// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "tests/posix/frontend.h"

namespace spate::posix_test {
namespace {

Outcome outcome(std::int64_t result) { return {result < 0 ? -errno : result}; }

class KernelFrontend final : public Frontend {
 public:
  KernelFrontend(std::string root, bool removes) : root_(std::move(root)), removes_(removes), old_umask_(::umask(0)) {}
  ~KernelFrontend() override {
    for (const auto& [fd, kernel] : files_) ::close(kernel);
    ::umask(old_umask_);
    if (!removes_) return;
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  std::string root() const override { return root_; }

  Outcome open(const std::string& path, int flags, unsigned mode) override {
    return keep(::open(at(path).c_str(), flags | O_CLOEXEC, mode));
  }
  Outcome open_at(int directory, const std::string& path, int flags, unsigned mode) override {
    return keep(::openat(kernel(directory), path.c_str(), flags | O_CLOEXEC, mode));
  }
  Outcome close(int fd) override {
    const int number = kernel(fd);
    files_.erase(fd);
    return outcome(::close(number));
  }
  Outcome read(int fd, std::size_t size) override {
    std::string data(size, '\0');
    return got(::read(kernel(fd), data.data(), size), data);
  }
  Outcome write(int fd, const std::string& data) override {
    return outcome(::write(kernel(fd), data.data(), data.size()));
  }
  Outcome pread(int fd, std::size_t size, std::int64_t offset) override {
    std::string data(size, '\0');
    return got(::pread(kernel(fd), data.data(), size, offset), data);
  }
  Outcome pwrite(int fd, const std::string& data, std::int64_t offset) override {
    return outcome(::pwrite(kernel(fd), data.data(), data.size(), offset));
  }
  Outcome seek(int fd, std::int64_t offset, int whence) override {
    return outcome(::lseek(kernel(fd), offset, whence));
  }
  Outcome ftruncate(int fd, std::int64_t size) override { return outcome(::ftruncate(kernel(fd), size)); }
  Outcome fallocate(int fd, int mode, std::int64_t offset, std::int64_t size) override {
    return outcome(::fallocate(kernel(fd), mode, offset, size));
  }
  Outcome fstat(int fd) override {
    struct stat st{};
    return ::fstat(kernel(fd), &st) != 0 ? outcome(-1) : told(st);
  }
  Outcome list(int fd) override {
    const int copy = ::openat(kernel(fd), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* const directory = copy < 0 ? nullptr : ::fdopendir(copy);
    if (directory == nullptr) return outcome(-1);
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(directory))
      names.push_back(std::string(entry->d_name) + ":" + std::to_string(entry->d_type));
    ::closedir(directory);
    std::sort(names.begin(), names.end());
    Outcome all{static_cast<std::int64_t>(names.size())};
    for (const std::string& name : names) all.text += name + " ";
    return all;
  }

  Outcome stat(const std::string& path, bool follow) override {
    struct stat st{};
    return ::fstatat(AT_FDCWD, at(path).c_str(), &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0 ? outcome(-1) : told(st);
  }
  Outcome access(const std::string& path, int wanted) override { return outcome(::access(at(path).c_str(), wanted)); }
  Outcome mkdir(const std::string& path, unsigned mode) override { return outcome(::mkdir(at(path).c_str(), mode)); }
  Outcome rmdir(const std::string& path) override { return outcome(::rmdir(at(path).c_str())); }
  Outcome unlink(const std::string& path) override { return outcome(::unlink(at(path).c_str())); }
  Outcome symlink(const std::string& target, const std::string& path) override {
    return outcome(::symlink(target.c_str(), at(path).c_str()));
  }
  Outcome readlink(const std::string& path) override {
    std::string target(5000, '\0');
    const ssize_t n = ::readlink(at(path).c_str(), target.data(), target.size());
    return n < 0 ? outcome(-1) : Outcome{n, target.substr(0, static_cast<std::size_t>(n))};
  }
  Outcome link(const std::string& existing, const std::string& path, bool follow) override {
    return outcome(
        ::linkat(AT_FDCWD, at(existing).c_str(), AT_FDCWD, at(path).c_str(), follow ? AT_SYMLINK_FOLLOW : 0));
  }
  Outcome rename(const std::string& from, const std::string& to, unsigned flags) override {
    return outcome(::renameat2(AT_FDCWD, at(from).c_str(), AT_FDCWD, at(to).c_str(), flags));
  }
  Outcome truncate(const std::string& path, std::int64_t size) override {
    return outcome(::truncate(at(path).c_str(), size));
  }
  Outcome chmod(const std::string& path, unsigned mode) override { return outcome(::chmod(at(path).c_str(), mode)); }
  Outcome mknod(const std::string& path, unsigned mode) override { return outcome(::mknod(at(path).c_str(), mode, 0)); }
  Outcome utimens(const std::string& path, std::int64_t atime_s, std::int64_t mtime_s) override {
    const timespec times[2] = {{atime_s, 5}, {mtime_s, kChosenTime.tv_nsec}};
    if (::utimensat(AT_FDCWD, at(path).c_str(), times, 0) != 0) return outcome(-1);
    struct stat st{};
    ::stat(at(path).c_str(), &st);
    return {st.st_atim.tv_sec + st.st_mtim.tv_sec + st.st_atim.tv_nsec + st.st_mtim.tv_nsec};
  }
  Outcome setxattr(const std::string& path, const std::string& name, const std::string& value, int flags) override {
    return outcome(::setxattr(at(path).c_str(), name.c_str(), value.data(), value.size(), flags));
  }
  Outcome getxattr(const std::string& path, const std::string& name) override {
    std::string value(70000, '\0');
    const ssize_t n = ::getxattr(at(path).c_str(), name.c_str(), value.data(), value.size());
    return n < 0 ? outcome(-1) : Outcome{n, value.substr(0, static_cast<std::size_t>(n))};
  }
  Outcome removexattr(const std::string& path, const std::string& name) override {
    return outcome(::removexattr(at(path).c_str(), name.c_str()));
  }

 private:
  /// An empty path stays empty, since it causes an error of its own.
  std::string at(const std::string& path) const { return path.empty() ? path : root_ + path; }
  int kernel(int fd) const {
    const auto found = files_.find(fd);
    return found == files_.end() ? -1 : found->second;
  }
  Outcome keep(int number) {
    if (number < 0) return outcome(-1);
    int fd = 0;
    while (files_.contains(fd)) ++fd;
    files_[fd] = number;
    return {fd};
  }
  static Outcome got(ssize_t n, const std::string& data) {
    return n < 0 ? outcome(-1) : Outcome{n, data.substr(0, static_cast<std::size_t>(n))};
  }

  const std::string root_;
  const bool removes_;
  const mode_t old_umask_;
  std::map<int, int> files_;
};

}  // namespace

std::string describe(const Outcome& outcome) {
  std::string text = std::to_string(outcome.number);
  if (outcome.number < 0) text += std::string(" ") + ::strerrorname_np(static_cast<int>(-outcome.number));
  return outcome.text.empty() ? text : text + " \"" + outcome.text.substr(0, 200) + "\"";
}

Outcome told(const struct stat& st) {
  const bool directory = S_ISDIR(st.st_mode);
  const bool chosen = st.st_mtim.tv_nsec == kChosenTime.tv_nsec && st.st_mtim.tv_sec < kChosenTime.tv_sec;
  char text[120];
  std::snprintf(text, sizeof text, "mode %o links %llu size %lld time %lld", st.st_mode,
                static_cast<unsigned long long>(st.st_nlink), directory ? -1LL : static_cast<long long>(st.st_size),
                chosen ? static_cast<long long>(st.st_mtim.tv_sec) : -1LL);
  return {0, text};
}

std::string place_of_oracle() {
  const char* const chosen = std::getenv("TMPDIR");
  for (const char* place : {chosen == nullptr ? "/tmp" : chosen, "/tmp", "/var/tmp"}) {
    if (is_ext4(place) && ::access(place, W_OK) == 0) return place;
  }
  return "/tmp";
}

bool is_ext4(const std::string& folder) {
  constexpr long kMagic = 0xEF53;
  struct statfs st{};
  return ::statfs(folder.c_str(), &st) == 0 && st.f_type == kMagic;
}

std::unique_ptr<Frontend> make_kernel_frontend() {
  std::string root = place_of_oracle() + "/spate-posix-XXXXXX";
  if (::mkdtemp(root.data()) == nullptr) throw std::runtime_error("no temporary folder");
  return std::make_unique<KernelFrontend>(std::move(root), true);
}

std::unique_ptr<Frontend> make_kernel_frontend(std::string folder) {
  return std::make_unique<KernelFrontend>(std::move(folder), false);
}

}  // namespace spate::posix_test
