// SPDX-License-Identifier: Apache-2.0
// SimLentFiles: the leased datafiles of one simulated process, on the disks of its machine.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "base/random.h"
#include "client/bypass/lent_file.h"
#include "job/executor.h"
#include "trove/sim/sim_disk.h"

namespace spate::cluster {

/// What the machine does for the process.
struct LentMachine {
  /// Whose descriptor that is; null: nobody's.
  std::function<trove::SimDisk*(int fd)> disk_of;
  /// Runs it after a while, whatever has become of the process.
  std::function<void(Duration, UniqueFunction<void()>)> later;
  /// Told of bytes that the process has read or written by itself.
  std::function<void(std::uint64_t)> moved;
};

/// Some of what is moved is moved at once, some takes a while, and what is written waits while the device is stuck().
/// Then the executor goes on, and only the tasks that await the write wait.
class SimLentFiles final : public client::LentFiles {
 public:
  SimLentFiles(job::Executor& executor, Random& random, LentMachine machine)
      : executor_(executor), random_(random), machine_(std::move(machine)) {}
  SimLentFiles(const SimLentFiles&) = delete;
  SimLentFiles& operator=(const SimLentFiles&) = delete;

  Result<std::unique_ptr<client::LentFile>> open(UniqueFd page, UniqueFd file, bool for_writing) override;

  void stick(bool on) { stuck_ = on; }
  /// Writes under way.
  std::size_t writing() const { return under_way_.size(); }
  /// The process is killed: what it was writing happens, in part or not at all, now or, if the device is stuck, when
  /// that gives way: a process is not gone before its system call is.
  void die();

 private:
  class File;
  struct Piece {
    std::uint64_t offset = 0;
    Bytes data;
  };
  struct UnderWay {
    File* file;
    client::LocalMove* move;
  };
  void leave_behind(const UnderWay& write);

  job::Executor& executor_;
  Random& random_;
  LentMachine machine_;
  bool alive_ = true;
  bool stuck_ = false;
  std::list<UnderWay> under_way_;
};

}  // namespace spate::cluster
