// SPDX-License-Identifier: Apache-2.0
// LentFile: the datafile and lease page behind the two descriptors of a bypass lease. LentFiles: makes a LentFile from
// descriptors, of the kernel here and of a simulated kernel in the simulation.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "base/result.h"
#include "base/unique_fd.h"
#include "client/bypass/local_move.h"
#include "client/bypass/nowait_io.h"
#include "client/bypass/offload.h"
#include "job/task.h"
#include "model/lease_words.h"

namespace spate::client {

/// A datafile and the page of its lease. One executor. Moves under way keep it alive.
class LentFile {
 public:
  virtual ~LentFile() = default;

  /// A holder with a read lease uses only `state`.
  virtual LeaseWords& words() = 0;
  virtual bool readable() const = 0;
  /// Bytes. Nothing when the descriptor is no longer the one that was passed: the program has closed it and opened
  /// another file in its place.
  virtual std::optional<std::uint64_t> size() const = 0;
  /// The descriptor belongs to the program by now: LentFile must not close it.
  virtual void disown() = 0;
  /// As LocalMove::try_now().
  virtual bool try_now(LocalMove& move) = 0;
  /// Moves the rest, however long that takes.
  virtual job::Task<void> finish(LocalMove& move) = 0;
};

class LentFiles {
 public:
  virtual ~LentFiles() = default;
  /// kProtocol: the descriptors are not those of a lease. kBusy: this process has no room for more.
  virtual Result<std::unique_ptr<LentFile>> open(UniqueFd page, UniqueFd file, bool for_writing) = 0;
};

/// Files of this machine's kernel.
class KernelLentFiles final : public LentFiles {
 public:
  /// Both outlive what is opened, as this does.
  KernelLentFiles(Offload& offload, const Clock& clock) : offload_(offload), clock_(clock) {}
  Result<std::unique_ptr<LentFile>> open(UniqueFd page, UniqueFd file, bool for_writing) override;

 private:
  Offload& offload_;
  const Clock& clock_;
  std::map<dev_t, WriteLatency> latency_;  // of each device's file system
};

}  // namespace spate::client
