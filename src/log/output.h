// SPDX-License-Identifier: Apache-2.0
// The destination and form of this process's lines. main() sets them up; tests and the simulation use Capture.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "log/line.h"

namespace spate::log {

void set_format(Format format);

/// Lines go to `path` (appended, created 0640) instead of to standard error. On failure nothing changes. Each line is
/// one write(2) without a lock: safe with threads, across fork, and for several processes on one file.
Result<void> open_file(const std::string& path);
/// The same for a file in a folder that no option names as the folder for logs. Fails with kNotPermitted unless the
/// folder and its parent belong to this user, nobody else can write to them, and the file is no link.
Result<void> open_file_in_own_folder(const std::string& path);
/// Reopens the file by its path, for log rotation (spated calls it on SIGHUP). Has no effect without a file.
Result<void> reopen_file();
/// Sends lines to standard error again.
void close_file();

/// Receives every finished line (without its line end) instead of the file or standard error.
class Sink {
 public:
  virtual ~Sink() = default;
  /// Any thread may call it. It must not log.
  virtual void line(std::string_view text) = 0;
};

/// While it lives, it collects the process's lines, with the times of `clock`, for a test or a simulation. Nested
/// captures are destroyed in reverse order. No other thread may log while one is made or destroyed.
class Capture final : public Sink {
 public:
  explicit Capture(const Clock& clock);
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() override;

  void line(std::string_view text) override;
  /// All lines so far, each ended by '\n'. Thread-safe.
  std::string text() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  std::string text_;  // guarded by mutex_
  Sink* previous_sink_;
  const Clock* previous_clock_;
};

}  // namespace spate::log
