// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <filesystem>
#include <system_error>

#include "trove/bytestream_harness.h"
#include "trove/mem/mem_bytestreams.h"
#include "trove/pool/pool_bytestreams.h"
#include "trove/uring/uring_bytestreams.h"

namespace spate::trove {
namespace {

constexpr TargetIdentity kIdentity{FsId(0x5061746553706174), TargetId(7)};

/// A folder of its own, removed at the end.
class Scratch {
 public:
  explicit Scratch(const std::string& parent) {
    std::error_code ignored;
    std::filesystem::create_directories(parent, ignored);
    path_ = parent + "/spate-trove-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void sleep_until_event(Bytestreams& streams) {
  if (!streams.prepare_to_wait()) return;
  pollfd wanted{streams.wait_descriptor(), POLLIN, 0};
  // The time is a rescue for a lost wake only, which then fails the test.
  ASSERT_GT(::poll(&wanted, 1, 20'000), 0) << "no wake within 20 s";
}

enum class LocalModule { kPool, kUring };

class LocalBackend final : public Backend {
 public:
  LocalBackend(LocalModule module, const std::string& parent, bool in_post)
      : module_(module), scratch_(parent), in_post_(in_post) {}

  bool open(std::string& skip) {
    if (scratch_.path().empty()) {
      skip = "no scratch folder can be made";
      return false;
    }
    const std::string folder = scratch_.path() + "/target";
    if (!std::filesystem::exists(folder)) {
      const Result<void> made = create_target(folder, kIdentity);
      if (!made) skip = made.error().message();
      if (!made) return false;
    }
    LocalTargetOptions options;
    options.max_open_datafiles = 16;  // small, so that the suite passes the limit
    Result<std::shared_ptr<LocalTarget>> target = LocalTarget::open(folder, kIdentity, options);
    if (!target) skip = target.error().message();
    return target && attach(*target, skip);
  }

  Bytestreams& streams() override { return *streams_; }
  void restart() override {
    streams_.reset();
    std::string reason;
    ASSERT_TRUE(open(reason)) << reason;
  }
  void idle() override { sleep_until_event(*streams_); }

 private:
  bool attach(std::shared_ptr<LocalTarget> target, std::string& skip) {
    LocalBytestreamsOptions local;
    if (!in_post_) local.inline_limit_bytes = 0;
    if (module_ == LocalModule::kPool) {
      streams_ = std::make_unique<PoolBytestreams>(std::move(target), local);
      return true;
    }
    UringOptions options;
    options.local = local;
    options.ring_entries = 8;  // small, so that the suite fills it
    Result<std::unique_ptr<UringBytestreams>> made = UringBytestreams::make(std::move(target), options);
    if (!made) skip = made.error().message();
    if (made) streams_ = *std::move(made);
    return streams_ != nullptr;
  }

  const LocalModule module_;
  Scratch scratch_;
  const bool in_post_;
  std::unique_ptr<Bytestreams> streams_;
};

class MemBackend final : public Backend {
 public:
  Bytestreams& streams() override { return *streams_; }
  void restart() override { streams_ = std::make_unique<MemBytestreams>(store_); }
  void idle() override { FAIL() << "mem has nothing to wait for"; }

 private:
  std::shared_ptr<MemStore> store_ = std::make_shared<MemStore>(std::uint64_t{1} << 30U);
  std::unique_ptr<Bytestreams> streams_ = std::make_unique<MemBytestreams>(store_);
};

std::unique_ptr<Backend> make_local(LocalModule module, const std::string& parent, bool in_post, std::string& skip) {
  auto backend = std::make_unique<LocalBackend>(module, parent, in_post);
  if (!backend->open(skip)) return nullptr;
  return backend;
}

}  // namespace

std::vector<std::string> backend_names() {
  return {"pool_memory", "pool_memory_threads", "pool_disk", "uring_memory_ring", "uring_disk", "uring_disk_ring", "mem"};
}

std::unique_ptr<Backend> make_backend(const std::string& name, std::string& skip) {
  const std::string memory = "/dev/shm";
  const std::string disk = SPATE_TEST_DISK_FOLDER;
  if (name == "pool_memory") return make_local(LocalModule::kPool, memory, true, skip);
  if (name == "pool_memory_threads") return make_local(LocalModule::kPool, memory, false, skip);
  if (name == "pool_disk") return make_local(LocalModule::kPool, disk, true, skip);
  if (name == "uring_memory_ring") return make_local(LocalModule::kUring, memory, false, skip);
  if (name == "uring_disk") return make_local(LocalModule::kUring, disk, true, skip);
  if (name == "uring_disk_ring") return make_local(LocalModule::kUring, disk, false, skip);
  if (name == "mem") return std::make_unique<MemBackend>();
  skip = "unknown backend " + name;
  return nullptr;
}

}  // namespace spate::trove
