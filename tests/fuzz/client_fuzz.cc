// SPDX-License-Identifier: Apache-2.0
// Fuzzer of a whole client. The input decides what its servers answer: a proper reply with changed bytes, any bytes, an
// error, or nothing. Each call of the client must end in time and yield no more than it had room for.
#include <array>
#include <memory>
#include <optional>

#include "base/check.h"
#include "client/attributes/copies.h"
#include "log/log.h"
#include "tests/cluster/client_process.h"
#include "tests/fuzz/hostile_server.h"

namespace spate::cluster {
namespace {

constexpr std::size_t kMaxCalls = 12;

/// A holder of copies that drops them at once.
class PromptCopies final : public client::Copies {
 public:
  Names takes_names() const override { return Names::kOfAll; }
  bool begin_attributes(Handle, MonoTime) override { return true; }
  void drop_attributes(Handle) override {}
  void drop_names() override {}
  bool when_dropped(UniqueFunction<void()>) override { return false; }
};

class Run {
 public:
  explicit Run(ByteView input)
      : script_(input),
        fabric_(clock_, random_),
        meta_(fabric_, ServerId(1), script_),
        io_(fabric_, ServerId(2), script_) {
    ClusterMap map;
    map.fs = kFs;
    map.servers = {
        {ServerId(1), {urls_of(1).front()}, {true, false}, {}},
        {ServerId(2), {urls_of(2).front()}, {false, true}, {target_id(ServerId(2), 0), target_id(ServerId(2), 1)}}};
    auto options = small_client_options(map, Key{}, "fuzzed");
    options.client_key.reset();
    if (script_.leases()) {
      options.keep_attributes = true;
      options.most_kept = 16;
      options.copies = &copies_;
    }
    // No descriptor that a server passes belongs to a file of this machine.
    LeaseMachine machine;
    machine.disk_of = [](int) { return nullptr; };
    machine.later = [](Duration, UniqueFunction<void()>) {};
    machine.moved = [](std::uint64_t) {};
    process_.emplace(Ether{clock_, fabric_}, 100U, 5U, std::move(options), std::move(machine));
  }

  void play() {
    for (std::size_t i = 0; i < kMaxCalls && !script_.ended(); ++i) one(script_.u8());
    if (file_ != nullptr) std::ignore = drive(file_->close());
    file_.reset();
    process_->quit();
    while (!process_->ended()) turn();
  }

 private:
  client::Client& client() { return process_->client(); }
  static client::NamePath path() { return client::path_from_root("a/file"); }

  void one(std::uint8_t what) {
    switch (what % 16) {
      case 0: return keep(drive(client().open(path(), wire::kOpenRead | wire::kOpenWrite)));
      case 1: return keep(drive(client().create(path(), wire::kOpenRead | wire::kOpenWrite, {})));
      case 2: return look();
      case 3: return (void)drive(client().statfs());
      case 4: return (void)drive(client().readdir({}));
      case 5: return (void)drive(client().getxattr(path(), "user.x"));
      case 6: return (void)drive(client().rename(path(), path()));
      case 7: return (void)drive(client().truncate(path(), 100));
      case 8: return (void)drive(client().sync());
      case 9: return (void)drive(client().mkdir(path(), {}));
      default: return of_file(what);
    }
  }

  /// Uses the cache as a mount does.
  void look() {
    client::AttributeCache& cache = client().cluster().attributes();
    if (!client().kept_attributes(path())) std::ignore = drive(client().stat(path()));
    std::ignore = cache.copy_attributes(kFile);
    std::ignore = cache.copy_name(kFolder, "file", kFile);
  }

  void keep(Result<std::unique_ptr<client::File>> opened) {
    if (!opened) return;
    if (file_ != nullptr) std::ignore = drive(file_->close());
    file_ = *std::move(opened);
  }

  void of_file(std::uint8_t what) {
    if (file_ == nullptr) return;
    constexpr std::array<std::size_t, 4> kSizes{1, 500, 9'000, 40'000};
    memory_.assign(kSizes[what / 16U % 4], std::byte{0x77});
    const std::uint64_t offset = what / 64U * 3000;
    switch (what % 16) {
      case 10: {
        const auto n = drive(file_->read(offset, memory_));
        SPATE_CHECK(!n || *n <= memory_.size());
        return;
      }
      case 11: return (void)drive(file_->write(offset, memory_));
      case 12: return (void)drive(file_->stat());
      case 13: return (void)drive(file_->sync());
      case 14: return (void)drive(file_->punch(offset, memory_.size()));
      default: return (void)drive(file_->truncate(offset));
    }
  }

  template <typename T>
  static job::Task<void> into(job::Task<T> task, std::optional<T>& out) {
    out.emplace(co_await std::move(task));
  }
  template <typename T>
  T drive(job::Task<T> task) {
    std::optional<T> out;
    job::spawn(process_->gate(), into(std::move(task), out));
    const MonoTime limit = clock_.now() + std::chrono::minutes(10);
    while (!out) {
      SPATE_CHECK(clock_.now() < limit);  // otherwise the call hangs
      turn();
    }
    return *std::move(out);
  }
  void turn() {
    bool did = process_->executor().step();
    did |= meta_.turn();
    did |= io_.turn();
    if (did) return;
    const MonoTime next = std::min(fabric_.next_event_time(), process_->executor().next_timer());
    SPATE_CHECK(next != MonoTime::never());  // otherwise nothing can ever happen
    fabric_.run_until(next);
  }

  PromptCopies copies_;
  Script script_;
  ManualClock clock_;
  SeededRandom random_{1};
  bmi::sim::Fabric fabric_;
  HostileServer meta_;
  HostileServer io_;
  std::optional<ClientProcess> process_;
  std::unique_ptr<client::File> file_;
  Bytes memory_;
};

}  // namespace
}  // namespace spate::cluster

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  static const bool quiet = log::set_levels("off").has_value();
  (void)quiet;
  cluster::Run run({reinterpret_cast<const std::byte*>(data), size});
  run.play();
  return 0;
}
