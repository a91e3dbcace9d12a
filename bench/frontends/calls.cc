// SPDX-License-Identifier: Apache-2.0
#include "frontends/calls.h"

#include <fmt/core.h>
#include <spate.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace spate::bench {
namespace {

constexpr mode_t kMode = 0644;

class SystemCalls final : public Calls {
 public:
  File open(const std::string& path, int flags) override {
    return told(::open(path.c_str(), flags | O_CLOEXEC, kMode));
  }
  int close(File file) override { return told(::close(static_cast<int>(file))); }
  ssize_t pread(File file, void* memory, std::size_t size, off_t offset) override {
    return told(::pread(static_cast<int>(file), memory, size, offset));
  }
  ssize_t pwrite(File file, const void* memory, std::size_t size, off_t offset) override {
    return told(::pwrite(static_cast<int>(file), memory, size, offset));
  }
  int fsync(File file) override { return told(::fsync(static_cast<int>(file))); }
  int drop_pages(File file) override { return -::posix_fadvise(static_cast<int>(file), 0, 0, POSIX_FADV_DONTNEED); }
  int stat(const std::string& path) override {
    struct stat st{};
    return told(::stat(path.c_str(), &st));
  }
  int unlink(const std::string& path) override { return told(::unlink(path.c_str())); }

 private:
  template <typename T>
  static T told(T result) {
    return result >= 0 ? result : static_cast<T>(-errno);
  }
};

class NativeCalls final : public Calls {
 public:
  explicit NativeCalls(spate_fs* fs) : fs_(fs) {}
  NativeCalls(const NativeCalls&) = delete;
  NativeCalls& operator=(const NativeCalls&) = delete;
  ~NativeCalls() override { spate_disconnect(fs_); }

  File open(const std::string& path, int flags) override {
    spate_file* file = nullptr;
    const int result = spate_open(fs_, path.c_str(), flags, kMode, &file);
    return result < 0 ? result : reinterpret_cast<File>(file);
  }
  int close(File file) override { return spate_close(of(file)); }
  ssize_t pread(File file, void* memory, std::size_t size, off_t offset) override {
    return spate_pread(of(file), memory, size, offset);
  }
  ssize_t pwrite(File file, const void* memory, std::size_t size, off_t offset) override {
    return spate_pwrite(of(file), memory, size, offset);
  }
  int fsync(File file) override { return spate_fsync(of(file)); }
  int drop_pages(File) override { return 0; }
  int stat(const std::string& path) override {
    struct stat st{};
    return spate_stat(fs_, path.c_str(), &st);
  }
  int unlink(const std::string& path) override { return spate_unlink(fs_, path.c_str()); }

 private:
  static spate_file* of(File file) { return reinterpret_cast<spate_file*>(file); }

  spate_fs* fs_;
};

}  // namespace

std::unique_ptr<Calls> system_calls() { return std::make_unique<SystemCalls>(); }

std::unique_ptr<Calls> native_calls(const std::string& where) {
  spate_fs* fs = nullptr;
  if (spate_connect(&fs, where.c_str(), nullptr) != 0) {
    fmt::print(stderr, "{}\n", spate_last_error());
    return nullptr;
  }
  return std::make_unique<NativeCalls>(fs);
}

}  // namespace spate::bench
