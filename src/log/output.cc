// SPDX-License-Identifier: Apache-2.0
#include "log/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/unique_fd.h"
#include "log/line.h"
#include "log/log.h"

namespace spate::log {
namespace {

// The only process-wide state of the program: a line may come from anywhere, also before main and after a fork, so
// nobody could pass the state down. Everything that a write needs is constant-initialised and lock-free. Only opening a
// file takes the mutex.
constinit std::atomic<int> output_fd{STDERR_FILENO};
constinit std::atomic<Format> output_format{Format::kText};
constinit std::atomic<Sink*> output_sink{nullptr};
constinit std::atomic<const Clock*> output_clock{nullptr};  // null: the system's clock

constinit std::mutex file_mutex;
std::string file_path;     // guarded by file_mutex; empty: standard error
bool file_is_own = false;  // guarded by file_mutex; true: opened by open_file_in_own_folder()

WallTime wall_now() {
  const Clock* clock = output_clock.load(std::memory_order_acquire);
  return clock != nullptr ? clock->wall() : SystemClock().wall();
}

void write_line(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(output_fd.load(std::memory_order_relaxed), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // the disk is full, or nobody reads the pipe: the line is lost
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

constexpr int kHow = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;

Error not_own(const std::string& path) {
  return Error(Errc::kNotPermitted, "log file " + path + ": in a folder that others can change");
}

/// Opens the folder. -1 if it belongs to another user, or others can write to it.
UniqueFd own_folder(int at, const std::string& path, int how) {
  UniqueFd folder(::openat(at, path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | how));
  struct stat st{};
  const bool own = folder && ::fstat(folder.get(), &st) == 0 && st.st_uid == ::geteuid() && (st.st_mode & 0022U) == 0;
  return own ? std::move(folder) : UniqueFd();
}

/// Opens each folder on the path in turn, and checks it: a user who can rename entries in one of them could redirect
/// the log.
Result<UniqueFd> open_in_own_folder(const std::string& path) {
  const std::filesystem::path whole(path);
  const UniqueFd above = own_folder(AT_FDCWD, whole.parent_path().parent_path().string(), 0);
  if (!above) return not_own(path);
  const UniqueFd folder = own_folder(above.get(), whole.parent_path().filename().string(), O_NOFOLLOW);
  if (!folder) return not_own(path);
  UniqueFd file(::openat(folder.get(), whole.filename().c_str(), kHow | O_NOFOLLOW | O_NONBLOCK, 0640));
  if (!file) return errno_error(errno, "open log file " + path);
  struct stat st{};
  const bool own = ::fstat(file.get(), &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == ::geteuid() && st.st_nlink == 1;
  if (!own) return not_own(path);
  return file;
}

Result<UniqueFd> open_given(const std::string& path) {
  UniqueFd file(::open(path.c_str(), kHow, 0640));
  if (!file) return errno_error(errno, "open log file " + path);
  return file;
}

Result<void> open_locked(const std::string& path, bool own) {
  SPATE_TRY(UniqueFd file, own ? open_in_own_folder(path) : open_given(path));
  const int current = output_fd.load(std::memory_order_relaxed);
  if (current == STDERR_FILENO) {
    output_fd.store(file.release(), std::memory_order_relaxed);
  } else if (::dup3(file.get(), current, O_CLOEXEC) <
             0) {  // keeps the descriptor's number: a concurrent write goes to the old or the new file
    return errno_error(errno, "replace log file " + path);
  }
  return {};
}

}  // namespace

void set_format(Format format) { output_format.store(format, std::memory_order_relaxed); }

Result<void> open_file(const std::string& path) {
  const std::lock_guard lock(file_mutex);
  SPATE_TRY(std::ignore, open_locked(path, false));
  file_path = path;
  file_is_own = false;
  return {};
}

Result<void> open_file_in_own_folder(const std::string& path) {
  const std::lock_guard lock(file_mutex);
  SPATE_TRY(std::ignore, open_locked(path, true));
  file_path = path;
  file_is_own = true;
  return {};
}

Result<void> reopen_file() {
  const std::lock_guard lock(file_mutex);
  if (file_path.empty()) return {};
  return open_locked(file_path, file_is_own);
}

void close_file() {
  const std::lock_guard lock(file_mutex);
  if (file_path.empty()) return;
  // Makes the descriptor a duplicate of standard error instead of closing it: a concurrent write may use its number.
  if (::dup3(STDERR_FILENO, output_fd.load(std::memory_order_relaxed), O_CLOEXEC) >= 0) file_path.clear();
}

void vwrite(const Source& source, Level level, fmt::string_view format, fmt::format_args args) {
  // The caller may be about to report its errno.
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
