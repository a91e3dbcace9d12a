// SPDX-License-Identifier: Apache-2.0
// pieces_client SPATE.TOML PIECE STRIDE ROUNDS SERVER-PID...: writes and reads 16384 pieces of PIECE bytes, STRIDE
// bytes apart, with one request, ROUNDS times; and the same number of bytes in one piece. Prints a JSON line for each
// kind and direction: nanoseconds per piece, of the servers' and of this process's processor time, and of elapsed time.
// With "-" instead of SPATE.TOML and a file's name instead of the servers: one pread or pwrite a piece on that file.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "measure/cpu.h"
#include "spate.h"

namespace spate::bench {
namespace {

constexpr std::uint64_t kPieces = 16384;

struct Plan {
  std::uint64_t piece = 64;
  std::uint64_t stride = 256;
  int rounds = 50;
  std::vector<pid_t> servers;
};

double cpu_of(const std::vector<pid_t>& processes) {
  double sum = 0;
  for (const pid_t pid : processes) sum += measure::cpu_seconds(pid).value_or(0);
  return sum;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Runs `call` once to warm up and then `rounds` times. False: it failed.
bool measure_row(const Plan& plan, const char* kind, const char* way, const std::function<bool()>& call) {
  if (!call()) return false;
  const double servers = cpu_of(plan.servers);
  const double own = cpu_of({0});
  const double begin = now();
  for (int i = 0; i < plan.rounds; ++i) {
    if (!call()) return false;
  }
  const double per_piece = 1e9 / (static_cast<double>(plan.rounds) * static_cast<double>(kPieces));
  fmt::print(
      "{{\"kind\":\"{}\",\"way\":\"{}\",\"piece\":{},\"stride\":{},\"servers\":{:.1f},\"client\":{:.1f},\"wall\":{:.1f}"
      "}}\n",
      kind, way, plan.piece, plan.stride, (cpu_of(plan.servers) - servers) * per_piece, (cpu_of({0}) - own) * per_piece,
      (now() - begin) * per_piece);
  return true;
}

bool run_spate(const char* config, const Plan& plan) {
  spate_fs* fs = nullptr;
  spate_file* file = nullptr;
  if (spate_connect(&fs, config, nullptr) < 0 || spate_open(fs, "/pieces", O_RDWR | O_CREAT, 0600, &file) < 0)
    return false;
  std::vector<char> memory(kPieces * plan.piece, 'p');
  const iovec all{memory.data(), memory.size()};
  const auto whole = static_cast<ssize_t>(memory.size());
  spate_strided strided{};
  strided.block_size = plan.piece;
  strided.level_count = 1;
  strided.levels[0] = {kPieces, plan.stride};
  std::vector<spate_range> list;
  // The pieces are not quite regular, so that the list cannot be sent as a strided description.
  for (std::uint64_t i = 0; i < kPieces; ++i) list.push_back({i * plan.stride + i % 2, plan.piece});
  bool done =
      measure_row(plan, "strided", "write", [&] { return spate_write_strided(file, &strided, &all, 1) == whole; }) &&
      measure_row(plan, "strided", "read", [&] { return spate_read_strided(file, &strided, &all, 1) == whole; }) &&
      measure_row(plan, "list", "write",
                  [&] { return spate_write_list(file, list.data(), list.size(), &all, 1) == whole; }) &&
      measure_row(plan, "list", "read",
                  [&] { return spate_read_list(file, list.data(), list.size(), &all, 1) == whole; }) &&
      measure_row(plan, "bytes", "write",
                  [&] { return spate_pwrite(file, memory.data(), memory.size(), 0) == whole; }) &&
      measure_row(plan, "bytes", "read", [&] { return spate_pread(file, memory.data(), memory.size(), 0) == whole; });
  if (!done) fmt::print(stderr, "pieces_client: {}\n", spate_last_error());
  return spate_close(file) == 0 && spate_disconnect(fs) == 0 && done;
}

bool run_plain(const char* path, const Plan& plan) {
  const int fd = ::open(path, O_RDWR | O_CREAT, 0600);
  std::vector<char> memory(plan.piece, 'p');
  const auto each = [&](const auto& call) {
    for (std::uint64_t i = 0; i < kPieces; ++i) {
      if (call(static_cast<off_t>(i * plan.stride)) != static_cast<ssize_t>(plan.piece)) return false;
    }
    return true;
  };
  const bool done =
      measure_row(plan, "plain", "write",
                  [&] { return each([&](off_t at) { return ::pwrite(fd, memory.data(), plan.piece, at); }); }) &&
      measure_row(plan, "plain", "read",
                  [&] { return each([&](off_t at) { return ::pread(fd, memory.data(), plan.piece, at); }); });
  ::close(fd);
  return done;
}

}  // namespace
}  // namespace spate::bench

int main(int argc, char** argv) {
  if (argc < 6) {
    fmt::print(stderr, "usage: pieces_client SPATE.TOML PIECE STRIDE ROUNDS SERVER-PID...\n");
    return 2;
  }
  spate::bench::Plan plan;
  plan.piece = std::strtoull(argv[2], nullptr, 10);
  plan.stride = std::strtoull(argv[3], nullptr, 10);
  plan.rounds = std::atoi(argv[4]);
  if (plan.piece == 0 || plan.stride < plan.piece + 2 || plan.rounds <= 0) return 2;
  if (std::string(argv[1]) == "-") return spate::bench::run_plain(argv[5], plan) ? 0 : 1;
  for (int i = 5; i < argc; ++i) plan.servers.push_back(std::atoi(argv[i]));
  return spate::bench::run_spate(argv[1], plan) ? 0 : 1;
}
