// SPDX-License-Identifier: Apache-2.0
#include "tests/mirror/mirror_run.h"

#include <fmt/format.h>

#include <cstdio>

#include "server/io/mirror/range_locks.h"
#include "tests/cluster/data_model.h"
#include "tests/mirror/mirror_world.h"

namespace spate::cluster {
namespace {

constexpr std::uint64_t kSmallFile = 60'000;
constexpr std::uint64_t kLargeTimes = 16;
constexpr std::uint64_t kClients = 3;
constexpr std::uint64_t kFiles = 2;
constexpr Duration kStep = std::chrono::milliseconds(20);
constexpr Duration kMending = std::chrono::seconds(90);
constexpr Duration kReplacedAfter = std::chrono::seconds(6);

WorldOptions world_options(const MirrorRunOptions& run) {
  WorldOptions options = mirror_options(run.seed);
  if (run.replacing) options.rebuild_after = kReplacedAfter;
  options.min_copies = run.min_copies;
  return options;
}

class Run {
 public:
  explicit Run(const MirrorRunOptions& options)
      : options_(options), mirrors_(world_options(options)), random_(options.seed * 77 + 5) {
    planted_defect = options.defect;
  }

  MirrorRunResult run() {
    for (std::uint64_t c = 0; c < kClients; ++c) {
      ClientProcess& client = mirrors_.world.start_client(limits());
      job::spawn(client.gate(), work(client));
      ++working_;
    }
    for (int f = 0; f < options_.faults && ok(); ++f) fault();
    stopping_ = true;
    const MonoTime limit = mirrors_.world.now() + kMending;
    while (working_ > 0 && mirrors_.world.now() < limit) mirrors_.world.run_for(kStep);
    if (working_ > 0) fail("a client does not end");
    if (ok()) look();
    return {failure_, operations_};
  }

 private:
  struct Open {
    std::unique_ptr<client::File> file;
    std::uint64_t handle = 0;
  };

  bool ok() const { return failure_.empty(); }
  void fail(std::string what) {
    if (failure_.empty()) failure_ = std::move(what);
  }
  void say(const std::string& what) {
    if (options_.verbose)
      std::printf("%.6f %s\n", std::chrono::duration<double>(mirrors_.world.now() - MonoTime()).count(), what.c_str());
  }

  client::Options limits() const {
    client::Options limits = small_client_options({}, {}, {});
    if (options_.large) limits.unit_bytes = io::RangeLocks::kGranule;
    if (options_.large) limits.max_transfer_bytes = 1U << 20U;
    if (options_.min_copies > 1) limits.deadline = std::chrono::minutes(1);  // a write waits for a server's return
    return limits;
  }

  job::Task<void> work(ClientProcess& client) {
    std::vector<Open> opens;
    for (std::uint64_t f = 0; f < kFiles && ok(); ++f) {
      client::NewObject object;
      auto made = co_await client.client().create(client::path_from_root("f" + std::to_string(f)), kMirrorOpen, object);
      if (!made) {
        fail(fmt::format("create: {}", name(made.code())));
        break;
      }
      Open open{*std::move(made), 0};
      open.handle = open.file->handle().value;
      model_.know(open.handle, open.file->layout());
      if (options_.replacing) mirrors_.allow_leftovers(open.handle, open.file->layout());
      opens.push_back(std::move(open));
    }
    while (!stopping_ && ok() && opens.size() == kFiles) {
      Open& open = opens[random_.below(kFiles)];
      co_await operate(open);
      ++operations_;
      const Duration pause = std::chrono::milliseconds(random_.below(100));
      std::ignore = co_await client.executor().sleep(pause);
    }
    for (Open& open : opens) {
      const auto closed = co_await open.file->close();
      if (!closed) fail(fmt::format("close: {}", name(closed.code())));
    }
    --working_;
  }

  job::Task<void> operate(Open& open) {
    if (options_.reserving && random_.chance(1, 5)) co_return co_await reserve(open);
    const std::uint64_t kind = random_.below(20);
    if (kind < 10) {
      co_await write(open);
    } else if (kind < 16) {
      co_await read(open);
    } else if (kind == 16) {
      co_await punch(open);
    } else if (kind == 17) {
      co_await truncate(open);
    } else {
      const auto synced = co_await open.file->sync();
      if (!synced) fail(fmt::format("sync: {}", name(synced.code())));
    }
  }

  job::Task<void> write(Open& open) {
    std::vector<Extent> extents(1);
    extents[0].offset = random_.below(most_ - 1);
    if (options_.large && random_.chance(2, 3)) extents[0].offset &= ~(io::RangeLocks::kGranule - 1);
    extents[0].size = 1 + random_.below(std::min<std::uint64_t>(most_ - extents[0].offset, most_ / 3));
    const WriteId id = model_.begin_write(open.handle, extents);
    Bytes memory(extents[0].size);
    DataModel::fill(id, extents, memory);
    say(fmt::format("write {} of {}: {}+{}", id, open.handle, extents[0].offset, extents[0].size));
    const auto done = co_await open.file->write(extents[0].offset, memory);
    say(fmt::format("write {}: {}", id, name(done.code())));
    if (done) model_.succeeded(id);
    if (!done) fail(fmt::format("write: {} {}", name(done.code()), done.error().context()));
  }

  job::Task<void> read(Open& open) {
    const std::vector<Extent> extents{{0, most_}};
    const ReadId id = model_.begin_read(open.handle, extents);
    Bytes memory(most_);
    const auto got = co_await open.file->read(0, memory);
    if (!got) {
      fail(fmt::format("read: {} {}", name(got.code()), got.error().context()));
      co_return;
    }
    memory.resize(*got);
    const std::string wrong = model_.end_read(id, memory);
    if (!wrong.empty()) fail(fmt::format("a read of {}: {}", open.handle, wrong));
  }

  job::Task<void> punch(Open& open) {
    std::vector<Extent> extents(1);
    extents[0].offset = random_.below(most_ - 1);
    extents[0].size = 1 + random_.below(most_ - extents[0].offset);
    const WriteId id = model_.begin_punch(open.handle, extents);
    const auto done = co_await open.file->punch(extents[0].offset, extents[0].size);
    if (done) model_.succeeded(id);
    if (!done) fail(fmt::format("punch: {}", name(done.code())));
  }

  /// Changes no content. In half of the cases it covers all of the file.
  job::Task<void> reserve(Open& open) {
    const std::uint64_t offset = random_.chance(1, 2) ? 0 : random_.below(most_ - 1);
    const std::uint64_t size = offset == 0 ? most_ : 1 + random_.below(most_ - offset);
    const auto done = co_await open.file->allocate(offset, size);
    if (!done) fail(fmt::format("allocate: {} {}", name(done.code()), done.error().context()));
  }

  job::Task<void> truncate(Open& open) {
    const std::uint64_t size = random_.below(most_);
    const WriteId id = model_.begin_truncate(open.handle, size);
    const auto done = co_await open.file->truncate(size);
    if (done) model_.succeeded(id);
    if (!done) fail(fmt::format("truncate: {} {}", name(done.code()), done.error().context()));
  }

  Duration some(std::uint64_t most_ms) { return std::chrono::milliseconds(random_.below(most_ms + 1)); }

  /// Puts one server in trouble for a while. Then waits until every group is whole.
  void fault() {
    World& world = mirrors_.world;
    world.run_for(some(3000));
    const std::vector<ServerId> servers{ServerId(2), ServerId(3), ServerId(4)};
    const ServerId one = servers[random_.below(3)];
    const ServerId two = servers[(random_.below(2) + 1 + one.value - 2) % 3];
    bmi::sim::Links& links = world.fabric().links();
    const std::uint64_t kind = random_.below(8);
    const std::uint64_t most_away = options_.replacing ? 25'000 : 6000;  // ms
    say(fmt::format("fault {} of {} ({})", kind, one.value, two.value));
    switch (kind) {
      case 0:
      case 1:
        mirrors_.kill(one, kind == 0 ? bmi::sim::Death::kProcess : bmi::sim::Death::kMachine);
        world.run_for(some(most_away));
        world.start_server(one);
        break;
      case 2:
        world.pause(one, true);
        world.run_for(some(most_away));
        world.pause(one, false);
        break;
      case 3:
        links.partition(one.value, two.value, true);
        world.run_for(some(5000));
        links.partition(one.value, two.value, false);
        break;
      case 4:
        links.partition_one_way(one.value, two.value, true);
        world.run_for(some(5000));
        links.partition_one_way(one.value, two.value, false);
        break;
      case 5:  // it cannot reach the meta server and one member, so it takes no part without knowing that
        links.partition(one.value, kMetaServer.value, true);
        links.partition(one.value, two.value, true);
        world.run_for(some(5000));
        links.partition(one.value, kMetaServer.value, false);
        links.partition(one.value, two.value, false);
        break;
      case 6:
        mirrors_.end_in_order(one);
        world.run_for(some(2000));
        world.start_server(one);
        break;
      default:
        world.kill_server(one, bmi::sim::Death::kProcess);
        mirrors_.restart_empty(one);
        break;
    }
    say("mended");
    const MonoTime limit = world.now() + kMending;
    while (!mirrors_.is_whole() && ok() && world.now() < limit) world.run_for(kStep);
    if (ok() && !mirrors_.is_whole()) fail("a group does not become whole");
    say("whole");
  }

  void look() {
    if (!mirrors_.become_whole()) fail("a group does not become whole");
    const std::string wrong = mirrors_.differences();
    if (!wrong.empty()) fail("copies: " + wrong);
  }

  const MirrorRunOptions options_;
  const std::uint64_t most_ = options_.large ? kSmallFile * kLargeTimes : kSmallFile;  // bytes of a file
  DataModel model_;
  std::uint64_t working_ = 0;
  std::uint64_t operations_ = 0;
  bool stopping_ = false;
  std::string failure_;
  MirrorWorld mirrors_;
  SeededRandom random_;
};

}  // namespace

MirrorRunResult run_mirrored(const MirrorRunOptions& options) {
  Run run(options);
  MirrorRunResult result = run.run();
  planted_defect = Defect::kNone;
  return result;
}

}  // namespace spate::cluster
