// SPDX-License-Identifier: Apache-2.0
#include "log/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "log/line.h"
#include "log/log.h"

namespace spate::log {
namespace {

// The one process-wide state of the program: a line may come from anywhere, also before main and after a fork, so there
// is nobody to pass it down. What writing needs is constant-initialised and lock-free; only opening files takes the
// mutex.
constinit std::atomic<int> output_fd{STDERR_FILENO};
constinit std::atomic<Format> output_format{Format::kText};
constinit std::atomic<Sink*> output_sink{nullptr};
constinit std::atomic<const Clock*> output_clock{nullptr};  // null: the system's
constinit std::atomic<std::uint64_t> dropped{0};

constinit std::mutex file_mutex;
std::string file_path;  // guarded by file_mutex; empty: standard error

WallTime wall_now() {
  const Clock* clock = output_clock.load(std::memory_order_acquire);
  return clock != nullptr ? clock->wall() : SystemClock().wall();
}

void write_line(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(output_fd.load(std::memory_order_relaxed), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      dropped.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

Result<void> open_locked(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  if (!file) return errno_error(errno, "open log file " + path);
  const int current = output_fd.load(std::memory_order_relaxed);
  if (current == STDERR_FILENO) {
    output_fd.store(file.release(), std::memory_order_relaxed);
  } else if (::dup3(file.get(), current, O_CLOEXEC) <
             0) {  // same number: writers under way go to the old or the new file
    return errno_error(errno, "replace log file " + path);
  }
  return {};
}

}  // namespace

Result<Format> parse_format(std::string_view name) {
  if (name == "text") return Format::kText;
  if (name == "json") return Format::kJson;
  return Error(Errc::kInvalidArgument, fmt::format("no log format \"{}\" (there are: text, json)", name));
}

void set_format(Format format) { output_format.store(format, std::memory_order_relaxed); }

Result<void> open_file(const std::string& path) {
  const std::lock_guard lock(file_mutex);
  SPATE_TRY(std::ignore, open_locked(path));
  file_path = path;
  return {};
}

Result<void> reopen_file() {
  const std::lock_guard lock(file_mutex);
  if (file_path.empty()) return {};
  return open_locked(file_path);
}

void close_file() {
  const std::lock_guard lock(file_mutex);
  if (file_path.empty()) return;
  // The descriptor becomes another one of standard error and stays: a writer under way may hold its number.
  if (::dup3(STDERR_FILENO, output_fd.load(std::memory_order_relaxed), O_CLOEXEC) >= 0) file_path.clear();
}

std::uint64_t dropped_lines() { return dropped.load(std::memory_order_relaxed); }

void vwrite(const Source& source, Level level, fmt::string_view format, fmt::format_args args) {
  // The caller's errno is part of what it is reporting.
  const int saved_errno = errno;
  fmt::memory_buffer body;
  fmt::vformat_to(std::back_inserter(body), format, args);
  if (!source.fields().empty()) fmt::format_to(std::back_inserter(body), " {}", source.fields());
  const Line line{wall_now(), level, source.folder(), {body.data(), body.size()}};
  std::string text = render(line, output_format.load(std::memory_order_relaxed));
  if (Sink* sink = output_sink.load(std::memory_order_acquire)) {
    sink->line(text);
  } else {
    text += '\n';
    write_line(text);
  }
  errno = saved_errno;
}

Capture::Capture(const Clock& clock)
    : previous_sink_(output_sink.exchange(this)), previous_clock_(output_clock.exchange(&clock)) {}

Capture::~Capture() {
  output_sink.store(previous_sink_);
  output_clock.store(previous_clock_);
}

void Capture::line(std::string_view text) {
  const std::lock_guard lock(mutex_);
  text_.append(text).push_back('\n');
}

std::string Capture::text() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

void Capture::clear() {
  const std::lock_guard lock(mutex_);
  text_.clear();
}

}  // namespace spate::log
