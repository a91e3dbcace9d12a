// SPDX-License-Identifier: Apache-2.0
// SimLeasedFiles: the leased datafiles of a simulated process, on the disks of its machine.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "base/random.h"
#include "client/bypass/leased_file.h"
#include "job/executor.h"
#include "trove/sim/sim_disk.h"

namespace spate::cluster {

/// The functions of the machine that the process uses.
struct LeaseMachine {
  /// The disk to which a descriptor belongs; null: none.
  std::function<trove::SimDisk*(int fd)> disk_of;
  /// Calls the function after a while, even if the process is dead by then.
  std::function<void(Duration, UniqueFunction<void()>)> later;
  /// Called with the number of bytes that the process has read or written by itself.
  std::function<void(std::uint64_t)> moved;
};

/// Some moves are done at once, others take a while. Writes wait while the device is stuck (stick()). Only the tasks
/// that await a waiting write wait for it; the executor goes on.
class SimLeasedFiles final : public client::LeasedFiles {
 public:
  SimLeasedFiles(job::Executor& executor, Random& random, LeaseMachine machine)
      : executor_(executor), random_(random), machine_(std::move(machine)) {}
  SimLeasedFiles(const SimLeasedFiles&) = delete;
  SimLeasedFiles& operator=(const SimLeasedFiles&) = delete;

  Result<std::unique_ptr<client::LeasedFile>> open(UniqueFd page, UniqueFd file, bool for_writing) override;

  void stick(bool on) { stuck_ = on; }
  /// The number of writes in flight.
  std::size_t writing() const { return under_way_.size(); }
  /// The process is killed. Its writes in flight take effect in part, in full or not at all: now or, if the device is
  /// stuck, maybe later, since a process ends only after its system call.
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
  LeaseMachine machine_;
  bool alive_ = true;
  bool stuck_ = false;
  std::list<UnderWay> under_way_;
};

}  // namespace spate::cluster
