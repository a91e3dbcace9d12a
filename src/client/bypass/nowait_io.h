// SPDX-License-Identifier: Apache-2.0
// NowaitIo: reads and writes of a datafile in its local file system. It avoids waiting for a device, as far as that can
// be known or guessed, and reaches full speed for any alignment of the caller's memory.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "client/bypass/local_move.h"

namespace spate::client {

/// The system calls. One implementation asks the kernel; tests have others.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  /// preadv2 or pwritev2; a failure is a negative errno.
  virtual ssize_t move(const LocalIo::Pieces& pieces, bool is_write, int flags) = 0;
};

/// The recent history of writes to one device. Some file systems (ext4) cannot say whether a write through the page
/// cache would wait, so asking them is a wasted call. Nearly no write waits, and a thread for each costs as much as the
/// copy. So this class guesses that a write is as prompt as the previous ones. After a write that waited, the next ones
/// leave the calling thread for a while, and for a longer while if the one after that waits, too. Not thread-safe: only
/// the calling thread uses it.
class WriteLatency {
 public:
  /// Whether the file system can say if a write would wait. True until it refuses.
  bool tells() const { return tells_; }
  void does_not_tell() { tells_ = false; }
  bool seem_prompt(MonoTime now) const { return now >= trusted_from_; }
  void took(MonoTime begin, MonoTime end);

 private:
  static constexpr Duration kPrompt = std::chrono::milliseconds(10);  // guess: 4 MiB on a busy machine
  static constexpr Duration kFirstPause = std::chrono::milliseconds(100);
  static constexpr Duration kLongestPause = std::chrono::seconds(5);
  bool tells_ = true;
  Duration pause_ = kFirstPause;
  MonoTime trusted_from_;
};

/// Moves data of one file. Only the executor's thread calls move_pieces() without `wait`; any thread may call it with
/// `wait`.
class NowaitIo final : public LocalIo {
 public:
  /// All outlive it.
  NowaitIo(FileCalls& calls, WriteLatency& latency, const Clock& clock)
      : calls_(calls), latency_(latency), clock_(clock) {}
  /// The file is in memory, so no call ever waits.
  void never_waits() { in_memory_ = true; }

  ssize_t move_pieces(const Pieces& pieces, bool is_write, bool wait) override;

 private:
  ssize_t write_now(const Pieces& pieces);
  ssize_t move(const Pieces& pieces, bool is_write, int flags);
  ssize_t read_by_bounce(const Pieces& pieces, int flags);

  FileCalls& calls_;
  WriteLatency& latency_;
  const Clock& clock_;
  bool in_memory_ = false;
};

}  // namespace spate::client
