// SPDX-License-Identifier: Apache-2.0
// Where the lines of this process go, and in which form. Set up by main(); in tests and the simulation by Capture.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace spate::log {

/// kText: `2026-11-21T03:46:00.123456Z warn bmi/tcp connection lost peer=tcp://a:1`.
/// kJson: one object a line: time, level, folder, message and, under "fields", every key=value of the line.
enum class Format : std::uint8_t { kText, kJson };
Result<Format> parse_format(std::string_view name);

/// A longer line is cut and ends in "...": bytes.
inline constexpr std::size_t kMaxLineBytes = 8192;

void set_format(Format format);

/// Lines go to `path` (appended, created 0640) instead of to standard error. On failure nothing changes.
/// One write(2) a line and no lock: safe with threads, across fork, and for several processes on one file.
Result<void> open_file(const std::string& path);
/// The same for a file in a folder that nobody has named as one for logs: only where the folder and the one that it is
/// in are this user's and nobody else can write to them, and the file is no link. kNotPermitted.
Result<void> open_file_in_own_folder(const std::string& path);
/// Opens the file's path anew, for log rotation (spated calls it on SIGHUP). Without a file: no effect.
Result<void> reopen_file();
/// Back to standard error.
void close_file();

/// Lines that could not be written (disk full, broken pipe).
std::uint64_t dropped_lines();

/// Receives every finished line (without its line end) instead of the file or standard error.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Called by any thread; must not log.
  virtual void line(std::string_view text) = 0;
};

/// While it lives, the process's lines are collected here, with the times of `clock`: what a test or a simulation
/// reads. Nested ones are destroyed in reverse order. No other thread may be logging while one is made or destroyed.
class Capture final : public Sink {
 public:
  explicit Capture(const Clock& clock);
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() override;

  void line(std::string_view text) override;
  /// Everything so far, each line ended by '\n'. Thread-safe.
  std::string text() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  std::string text_;  // guarded by mutex_
  Sink* previous_sink_;
  const Clock* previous_clock_;
};

}  // namespace spate::log
