// SPDX-License-Identifier: Apache-2.0
// NowaitIo: reads and writes a datafile in its local file system. Avoids waiting for a device, as far as it can know or
// guess whether a call would wait. Reaches full speed for any alignment of the caller's memory.
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
/// cache would wait, so asking them wastes a call. Nearly no write waits, and to hand each write to a thread would cost
/// as much as the copy itself. So this class guesses that a write is as prompt as the previous ones. After a write that
/// waited, the next ones leave the calling thread for a while, which doubles if the first write after it waits, too.
/// Not thread-safe: only the calling thread uses it.
class WriteLatency {
 public:
  /// Whether the file system can say if a write would wait. True until the file system refuses to say it.
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

/// Moves data of one file. Only the executor's thread may call move_pieces() without `wait`; any thread may call it
/// with `wait`.
class NowaitIo final : public LocalIo {
 public:
  /// All parameters outlive this object.
  NowaitIo(FileCalls& calls, WriteLatency& latency, const Clock& clock)
      : calls_(calls), latency_(latency), clock_(clock) {}
  /// The file lies in memory (tmpfs), so no call ever waits.
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
