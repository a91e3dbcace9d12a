// SPDX-License-Identifier: Apache-2.0
// frontends_program: times calls on files below one folder, by one front end. frontends.py runs it on each front end
// and compares.
//   frontends_program [--native SPATE.TOML] [--pids PID,...] FOLDER CASE...
// A case is WHAT:SIZE:COUNT: of SIZE bytes, COUNT times, write, read (one after the other), random (reads), new (writes
// to a new file, with the fsync at the end), append (to a new file that is open with O_APPEND), cold (reads after the
// kernel's pages were dropped); or create, open (for reading), stat, unlink of COUNT names; or seek, COUNT times on a
// file outside of FOLDER. Each gives one line of JSON:
// seconds, and processor seconds of this process and of those of --pids.
#include <fmt/core.h>
#include <getopt.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "frontends/calls.h"
#include "measure/cpu.h"

namespace spate::bench {
namespace {

struct Case {
  std::string what;
  std::size_t size = 0;
  std::uint64_t count = 0;
};

/// "WHAT:SIZE:COUNT".
std::optional<Case> parse(const std::string& text) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  Case one;
  one.what = text.substr(0, first);
  one.size = std::strtoull(text.c_str() + first + 1, nullptr, 10);
  one.count = std::strtoull(text.c_str() + second + 1, nullptr, 10);
  if (one.count == 0) return std::nullopt;
  return one;
}

struct Settings {
  std::string native;
  std::vector<pid_t> pids;
  std::string folder;
  std::vector<Case> cases;
};

class Program {
 public:
  Program(const Settings& settings, Calls& calls) : settings_(settings), calls_(calls) {}

  /// Runs one case and prints its line. False: a call failed, and the reason was printed.
  bool run(const Case& one) {
    if (one.what == "write" || one.what == "read" || one.what == "random" || one.what == "cold") return run_data(one);
    if (one.what == "new" || one.what == "append") return run_new(one);
    if (one.what == "seek") return run_seek(one);
    return run_names(one);
  }

 private:
  bool run_data(const Case& one) {
    const Calls::File file = calls_.open(settings_.folder + "/data", O_RDWR | O_CREAT);
    if (file < 0) return failed("open", file);
    Buffer memory(one.size, Buffer::kPageAlignment);
    std::memset(memory.data(), 0x5a, one.size);
    const int dropped = one.what == "cold" ? calls_.drop_pages(file) : 0;
    if (dropped != 0) return failed("drop pages", dropped);
    std::uint64_t random = 1;
    const bool done = timed(one, [&](std::uint64_t i) -> ssize_t {
      if (one.what == "random") {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        i = (random >> 33U) % one.count;
      }
      const auto at = static_cast<off_t>(i * one.size);
      const ssize_t n = one.what == "write" ? calls_.pwrite(file, memory.data(), one.size, at)
                                            : calls_.pread(file, memory.data(), one.size, at);
      return n == static_cast<ssize_t>(one.size) ? 0 : (n < 0 ? n : -EIO);
    });
    const int closed = calls_.close(file);
    return done && (closed == 0 || failed("close", closed));
  }

  bool run_new(const Case& one) {
    const std::string path = settings_.folder + "/data";
    std::ignore = calls_.unlink(path);
    const bool appends = one.what == "append";
    const Calls::File file = calls_.open(path, O_RDWR | O_CREAT | (appends ? O_APPEND : 0));
    if (file < 0) return failed("open", file);
    Buffer memory(one.size, Buffer::kPageAlignment);
    std::memset(memory.data(), 0x5a, one.size);
    const bool done = timed(one, [&](std::uint64_t i) -> ssize_t {
      const ssize_t n = calls_.pwrite(file, memory.data(), one.size, static_cast<off_t>(i * one.size));
      if (n != static_cast<ssize_t>(one.size)) return n < 0 ? n : -EIO;
      return i + 1 == one.count && !appends ? calls_.fsync(file) : 0;
    });
    const int closed = calls_.close(file);
    return done && (closed == 0 || failed("close", closed));
  }

  bool run_names(const Case& one) {
    const auto path = [&](std::uint64_t i) { return settings_.folder + "/name-" + std::to_string(i); };
    if (one.what == "stat") return timed(one, [&](std::uint64_t i) { return calls_.stat(path(i)); });
    if (one.what == "unlink") return timed(one, [&](std::uint64_t i) { return calls_.unlink(path(i)); });
    if (one.what != "create" && one.what != "open") return failed(one.what.c_str(), -EINVAL);
    const int flags = one.what == "open" ? O_RDONLY : O_RDWR | O_CREAT | O_EXCL;
    return timed(one, [&](std::uint64_t i) -> ssize_t {
      const Calls::File file = calls_.open(path(i), flags);
      return file < 0 ? static_cast<ssize_t>(file) : calls_.close(file);
    });
  }

  /// Measures what a call on a descriptor outside of Spate costs, since the preload library looks at each descriptor.
  static bool run_seek(const Case& one) {
    const int file = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < one.count; ++i) {
      if (::lseek(file, 0, SEEK_SET) != 0) return failed("lseek", -errno);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    ::close(file);
    fmt::print("{{\"case\": \"{}\", \"seconds\": {:.9f}, \"cpu\": 0, \"others\": 0}}\n", one.what, seconds.count());
    return true;
  }

  bool timed(const Case& one, const std::function<ssize_t(std::uint64_t)>& call) {
    const double others = cpu_of_others();
    const double own = measure::cpu_seconds(0).value_or(0);
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < one.count; ++i) {
      if (const ssize_t result = call(i); result < 0) return failed(one.what.c_str(), result);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    fmt::print("{{\"case\": \"{}\", \"seconds\": {:.9f}, \"cpu\": {:.6f}, \"others\": {:.6f}}}\n", one.what,
               seconds.count(), measure::cpu_seconds(0).value_or(0) - own, cpu_of_others() - others);
    return true;
  }

  double cpu_of_others() const {
    double sum = 0;
    for (const pid_t pid : settings_.pids) sum += measure::cpu_seconds(pid).value_or(0);
    return sum;
  }

  static bool failed(const char* what, ssize_t result) {
    fmt::print(stderr, "{}: {}\n", what, std::strerror(static_cast<int>(-result)));
    return false;
  }

  const Settings& settings_;
  Calls& calls_;
};

std::optional<Settings> settings_of(int argc, char** argv) {
  Settings settings;
  const option options[] = {{"native", required_argument, nullptr, 'n'}, {"pids", required_argument, nullptr, 'p'}, {}};
  for (int found = 0; (found = ::getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    if (found == 'n') settings.native = optarg;
    if (found == '?') return std::nullopt;
    if (found != 'p') continue;
    for (char* at = optarg; *at != '\0';) {
      settings.pids.push_back(static_cast<pid_t>(std::strtol(at, &at, 10)));
      if (*at == ',') ++at;
    }
  }
  if (optind + 1 >= argc) return std::nullopt;
  settings.folder = argv[optind];
  for (int i = optind + 1; i < argc; ++i) {
    const auto one = parse(argv[i]);
    if (!one) return std::nullopt;
    settings.cases.push_back(*one);
  }
  return settings;
}

}  // namespace
}  // namespace spate::bench

int main(int argc, char** argv) {
  using namespace spate::bench;
  const auto settings = settings_of(argc, argv);
  if (!settings) {
    fmt::print(stderr, "usage: frontends_program [--native SPATE.TOML] [--pids PID,...] FOLDER WHAT:SIZE:COUNT...\n");
    return 2;
  }
  const auto calls = settings->native.empty() ? system_calls() : native_calls(settings->native);
  if (!calls) return 1;
  Program program(*settings, *calls);
  const bool well =
      std::all_of(settings->cases.begin(), settings->cases.end(), [&](const Case& one) { return program.run(one); });
  return well ? 0 : 1;
}
