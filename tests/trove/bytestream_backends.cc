// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <array>
#include <filesystem>
#include <map>
#include <system_error>

#include "trove/bytestream_harness.h"
#include "trove/fault/faulty_bytestreams.h"
#include "trove/mem/mem_store.h"
#include "trove/pool/pool_bytestreams.h"
#include "trove/sim/sim_bytestreams.h"
#include "trove/uring/uring_bytestreams.h"

namespace spate::trove {
namespace {

const std::string kFault = "fault_over_";
constexpr TargetIdentity kIdentity{FsId(0x5061746553706174), TargetId(7)};

/// A folder that the destructor removes.
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

/// One folder for all tests of a backend, since formatting one costs a disk a second. Removed when the program ends.
Scratch& scratch_of(const std::string& backend, const std::string& parent) {
  static std::map<std::string, std::unique_ptr<Scratch>> all;
  std::unique_ptr<Scratch>& one = all[backend];
  if (one == nullptr) one = std::make_unique<Scratch>(parent);
  return *one;
}

void sleep_until_event(Bytestreams& streams) {
  if (!streams.prepare_to_wait()) return;
  pollfd wanted{streams.wait_descriptor(), POLLIN, 0};
  // The limit matters only if a wake is lost. Then the test fails instead of hanging.
  ASSERT_GT(::poll(&wanted, 1, 20'000), 0) << "no wake within 20 s";
}

enum class LocalModule { kPool, kUring, kUringCoop, kUringPlain };

class LocalBackend final : public Backend {
 public:
  LocalBackend(LocalModule module, Scratch& scratch, bool in_post)
      : module_(module), scratch_(scratch), in_post_(in_post) {}

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
    options.max_open_datafiles = 16;  // small, so that the suite exceeds it
    Result<std::shared_ptr<LocalTarget>> target = LocalTarget::open(folder, kIdentity, options);
    if (!target) skip = target.error().message();
    return target && attach(*target, skip);
  }

  /// Removes all datafiles of earlier tests.
  void clear() {
    while (true) {
      const std::vector<DatafileId> some = streams_->list({}, 1000).value();
      if (some.empty()) return;
      for (const DatafileId& id : some) remove(id);
    }
  }

  Bytestreams& streams() override { return *streams_; }
  void restart() override {
    streams_.reset();
    std::string reason;
    ASSERT_TRUE(open(reason)) << reason;
  }
  void idle() override { sleep_until_event(*streams_); }

 private:
  void remove(const DatafileId& id) {
    BytestreamRequest request;
    request.op = BytestreamOp::kRemove;
    request.id = id;
    std::array<BytestreamCompletion, 1> done;
    if (streams_->post(request, nullptr, done[0])) return;
    while (streams_->test(done) == 0) idle();
  }

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
    options.lone_writes_by_threads = in_post_;
    options.skip_setups = module_ == LocalModule::kUringCoop ? 1 : module_ == LocalModule::kUringPlain ? 2 : 0;
    Result<std::unique_ptr<UringBytestreams>> made = UringBytestreams::make(std::move(target), options);
    if (!made) skip = made.error().message();
    if (made) streams_ = *std::move(made);
    return streams_ != nullptr;
  }

  const LocalModule module_;
  Scratch& scratch_;
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

class SimBackend final : public Backend {
 public:
  explicit SimBackend(bool page_cache) : disk_(clock_, random_, 1, model(page_cache)) { restart(); }
  Bytestreams& streams() override { return *streams_; }
  void restart() override {
    streams_.reset();
    streams_ = std::make_unique<SimBytestreams>(disk_);
  }
  void idle() override {
    ASSERT_NE(disk_.next_event_time(), MonoTime::never());
    clock_.set(disk_.next_event_time());
  }
  bool real_descriptors() const override { return false; }

 private:
  static SimDiskModel model(bool page_cache) {
    SimDiskModel made;
    made.direct_alignment = 512;
    made.page_cache = page_cache;
    made.jitter = std::chrono::microseconds(200);  // operations may overtake each other
    return made;
  }
  ManualClock clock_;
  SeededRandom random_{1};
  SimDisk disk_;
  std::unique_ptr<Bytestreams> streams_;
};

/// Uses the store of another backend through a fault decorator without a plan.
class FaultBackend final : public Backend {
 public:
  explicit FaultBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) { wrap(); }
  Bytestreams& streams() override { return *streams_; }
  void restart() override {
    streams_.reset();
    inner_->restart();
    wrap();
  }
  void idle() override { inner_->idle(); }
  bool real_descriptors() const override { return inner_->real_descriptors(); }

 private:
  /// A reference to the inner backend's store, which stays its owner.
  class Borrowed final : public Bytestreams {
   public:
    explicit Borrowed(Bytestreams& lender) : lender_(lender) {}
    bool post(const BytestreamRequest& request, void* user, BytestreamCompletion& done) override {
      return lender_.post(request, user, done);
    }
    std::size_t test(std::span<BytestreamCompletion> out) override { return lender_.test(out); }
    int wait_descriptor() const override { return lender_.wait_descriptor(); }
    bool prepare_to_wait() override { return lender_.prepare_to_wait(); }
    Result<std::vector<DatafileId>> list(DatafileId after, std::size_t max) override {
      return lender_.list(after, max);
    }
    Result<SpaceInfo> space() override { return lender_.space(); }
    DirectAbility direct() const override { return lender_.direct(); }
    std::string describe() const override { return lender_.describe(); }

   private:
    Bytestreams& lender_;
  };
  void wrap() {
    streams_ = std::make_unique<FaultyBytestreams>(std::make_unique<Borrowed>(inner_->streams()),
                                                   std::vector<BytestreamFault>{}, clock_);
  }

  std::unique_ptr<Backend> inner_;
  SystemClock clock_;
  std::unique_ptr<FaultyBytestreams> streams_;
};

struct LocalKind {
  std::string name;
  LocalModule module;
  bool on_disk;
  bool in_post;  // false: all operations go through threads or the ring
};

const std::vector<LocalKind>& local_kinds() {
  static const std::vector<LocalKind> kinds{
      {"pool_memory", LocalModule::kPool, false, true},
      {"pool_memory_threads", LocalModule::kPool, false, false},
      {"pool_disk", LocalModule::kPool, true, true},
      {"uring_memory_ring", LocalModule::kUring, false, false},
      {"uring_coop_ring", LocalModule::kUringCoop, true, false},
      {"uring_plain_ring", LocalModule::kUringPlain, true, false},
      {"uring_disk", LocalModule::kUring, true, true},
      {"uring_disk_ring", LocalModule::kUring, true, false},
  };
  return kinds;
}

std::unique_ptr<Backend> make_local(const LocalKind& kind, std::string& skip) {
  Scratch& scratch = scratch_of(kind.name, kind.on_disk ? SPATE_TEST_DISK_FOLDER : "/dev/shm");
  auto backend = std::make_unique<LocalBackend>(kind.module, scratch, kind.in_post);
  if (!backend->open(skip)) return nullptr;
  backend->clear();
  return backend;
}

}  // namespace

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const LocalKind& kind : local_kinds()) names.push_back(kind.name);
  for (const char* name : {"mem", "sim", "sim_uncached"}) names.emplace_back(name);
  for (const char* name : {"pool_memory_threads", "uring_disk_ring", "mem", "sim"}) names.push_back(kFault + name);
  return names;
}

std::unique_ptr<Backend> make_backend(const std::string& name, std::string& skip) {
  for (const LocalKind& kind : local_kinds()) {
    if (kind.name == name) return make_local(kind, skip);
  }
  if (name == "mem") return std::make_unique<MemBackend>();
  if (name == "sim") return std::make_unique<SimBackend>(true);
  if (name == "sim_uncached") return std::make_unique<SimBackend>(false);
  if (name.starts_with(kFault)) {
    std::unique_ptr<Backend> inner = make_backend(name.substr(kFault.size()), skip);
    return inner == nullptr ? nullptr : std::make_unique<FaultBackend>(std::move(inner));
  }
  skip = "unknown backend " + name;
  return nullptr;
}

}  // namespace spate::trove
