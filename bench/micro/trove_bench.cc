// SPDX-License-Identifier: Apache-2.0
// Compares bytestreams with plain pread and pwrite on the same file, in turns in the same run: trove_bench [folder
// ...], default /dev/shm and the current folder. One operation at a time (with a sleep until its completion), and
// sixteen in flight, over 64 MiB that stay in the page cache. Prints microseconds and CPU microseconds of an operation,
// the median of five runs.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "trove/datafile_name.h"
#include "trove/pool/pool_bytestreams.h"
#include "trove/uring/uring_bytestreams.h"

namespace spate::trove {
namespace {

constexpr std::uint64_t kFileBytes = 64U << 20U;
constexpr TargetIdentity kIdentity{FsId(1), TargetId(1)};
constexpr DatafileId kFile{Handle(1), 0};
constexpr std::size_t kMaxDepth = 16;
constexpr int kRepetitions = 5;

struct Cost {
  double wall_us = 0;
  double cpu_us = 0;
};

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Load {
  BytestreamOp op;
  std::size_t size;
  std::size_t depth;
  std::size_t count() const { return size > 65'536 ? 300 : 10'000; }
  /// Offsets step through the file, and begin at 0 again behind its end.
  std::uint64_t offset(std::size_t i) const { return i * size % kFileBytes; }
};

template <typename Run>
Cost median_cost(const Load& load, Run run) {
  std::array<Cost, kRepetitions> costs;
  for (Cost& cost : costs) {
    const double wall = wall_seconds();
    const double cpu = cpu_seconds();
    run();
    const auto n = static_cast<double>(load.count());
    cost = {(wall_seconds() - wall) * 1e6 / n, (cpu_seconds() - cpu) * 1e6 / n};
  }
  std::sort(costs.begin(), costs.end(), [](const Cost& a, const Cost& b) { return a.wall_us < b.wall_us; });
  return costs[kRepetitions / 2];
}

void run_plain(int fd, const Load& load, std::vector<Bytes>& buffers) {
  for (std::size_t i = 0; i < load.count(); ++i) {
    Bytes& buffer = buffers[i % load.depth];
    const auto offset = static_cast<off_t>(load.offset(i));
    const ssize_t n = load.op == BytestreamOp::kRead ? ::pread(fd, buffer.data(), load.size, offset)
                                                     : ::pwrite(fd, buffer.data(), load.size, offset);
    SPATE_CHECK(n == static_cast<ssize_t>(load.size));
  }
}

bool post_one(Bytestreams& streams, const Load& load, std::size_t i, Bytes& buffer, std::size_t slot) {
  const std::array<Extent, 1> extents{{{load.offset(i), load.size}}};
  const std::array<MutableByteView, 1> memory{MutableByteView(buffer).first(load.size)};
  BytestreamRequest request;
  request.op = load.op;
  request.id = kFile;
  request.extents = extents;
  request.memory = memory;
  BytestreamCompletion done;
  const bool at_once = streams.post(request, reinterpret_cast<void*>(slot), done);
  SPATE_CHECK(!at_once || (done.status == Errc::kOk && done.bytes == load.size));
  return at_once;
}

void run_streams(Bytestreams& streams, const Load& load, std::vector<Bytes>& buffers) {
  std::vector<std::size_t> free_slots;
  for (std::size_t i = 0; i < load.depth; ++i) free_slots.push_back(i);
  std::size_t posted = 0;
  std::size_t ended = 0;
  while (ended < load.count()) {
    while (!free_slots.empty() && posted < load.count()) {
      const std::size_t slot = free_slots.back();
      if (post_one(streams, load, posted++, buffers[slot], slot)) {
        ++ended;
      } else {
        free_slots.pop_back();
      }
    }
    if (ended == load.count()) break;
    std::array<BytestreamCompletion, kMaxDepth> some;
    const std::size_t n = streams.test(some);
    for (std::size_t i = 0; i < n; ++i) {
      SPATE_CHECK(some[i].status == Errc::kOk && some[i].bytes == load.size);
      free_slots.push_back(reinterpret_cast<std::size_t>(some[i].user));
    }
    ended += n;
    if (n > 0 || !streams.prepare_to_wait()) continue;
    pollfd wanted{streams.wait_descriptor(), POLLIN, 0};
    ::poll(&wanted, 1, -1);
  }
}

struct Contender {
  std::string name;
  std::unique_ptr<Bytestreams> streams;
};

std::vector<Contender> contenders(const std::shared_ptr<LocalTarget>& target) {
  std::vector<Contender> all;
  LocalBytestreamsOptions queued;
  queued.inline_limit_bytes = 0;
  all.push_back({"pool", std::make_unique<PoolBytestreams>(target)});
  all.push_back({"pool, all queued", std::make_unique<PoolBytestreams>(target, queued)});
  UringOptions ring;
  Result<std::unique_ptr<UringBytestreams>> uring = UringBytestreams::make(target, ring);
  if (uring) all.push_back({"uring", *std::move(uring)});
  ring.local = queued;
  uring = UringBytestreams::make(target, ring);
  if (uring) all.push_back({"uring, all queued", *std::move(uring)});
  return all;
}

void measure(const std::string& folder, const std::shared_ptr<LocalTarget>& target) {
  std::vector<Contender> all = contenders(target);
  std::vector<Bytes> buffers(kMaxDepth, Bytes(1U << 20U, std::byte{1}));
  for (std::uint64_t i = 0; i < kFileBytes >> 20U; ++i) {
    const Load fill{BytestreamOp::kWrite, 1U << 20U, 1};
    const bool at_once = post_one(*all[0].streams, fill, i, buffers[0], 0);
    std::array<BytestreamCompletion, 1> done;
    while (!at_once && all[0].streams->test(done) == 0) ::usleep(100);
  }
  const std::string file = folder + "/d/" + DatafilePath(kFile).c_str();
  const UniqueFd fd(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  for (const BytestreamOp op : {BytestreamOp::kRead, BytestreamOp::kWrite}) {
    for (const std::size_t size : {std::size_t{4096}, std::size_t{1} << 20U}) {
      for (const std::size_t depth : {std::size_t{1}, kMaxDepth}) {
        const Load load{op, size, depth};
        fmt::print("{} {} bytes, {} at a time\n", op == BytestreamOp::kRead ? "read" : "write", size, depth);
        const Cost plain = median_cost(load, [&] { run_plain(fd.get(), load, buffers); });
        fmt::print("  {:<20} {:>9.2f} us {:>9.2f} CPU us\n", "pread/pwrite", plain.wall_us, plain.cpu_us);
        for (Contender& one : all) {
          const Cost cost = median_cost(load, [&] { run_streams(*one.streams, load, buffers); });
          fmt::print("  {:<20} {:>9.2f} us {:>9.2f} CPU us\n", one.name, cost.wall_us, cost.cpu_us);
        }
      }
    }
  }
}

int run(const std::vector<std::string>& parents) {
  for (const std::string& parent : parents) {
    std::string folder = parent + "/spate-bench-XXXXXX";
    SPATE_CHECK(::mkdtemp(folder.data()) != nullptr);
    const Result<void> made = create_target(folder, kIdentity);
    if (!made) fmt::print(stderr, "{}\n", made.error().message());
    if (!made) return 1;
    fmt::print("== {}\n", parent);
    measure(folder, LocalTarget::open(folder, kIdentity).value());
    std::filesystem::remove_all(folder);
  }
  return 0;
}

}  // namespace
}  // namespace spate::trove

int main(int argc, char** argv) {
  std::vector<std::string> parents(argv + 1, argv + argc);
  if (parents.empty()) parents = {"/dev/shm", "."};
  return spate::trove::run(parents);
}
