// SPDX-License-Identifier: Apache-2.0
// LeasedFile: the datafile and the lease page behind the two descriptors of a bypass lease. LeasedFiles: makes a
// LeasedFile from descriptors of the real kernel, or of a simulated one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/workers.h"
#include "client/bypass/local_move.h"
#include "client/bypass/nowait_io.h"
#include "job/executor.h"
#include "job/task.h"
#include "model/lease_words.h"

namespace spate::client {

/// A datafile and the page of its lease, both open until the destructor. One executor. Running moves keep it alive.
class LeasedFile {
 public:
  virtual ~LeasedFile() = default;

  /// The lease page. The holder of a read lease uses only its member `state`.
  virtual LeaseWords& words() = 0;
  virtual bool readable() const = 0;
  /// Size in bytes. Nothing: the descriptor does not refer to the passed file any more, because the program has closed
  /// the descriptor and opened another file under its number.
  virtual std::optional<std::uint64_t> size() const = 0;
  /// Whether the device has room beyond what its server keeps for records. Writes under a lease do not see that limit.
  virtual bool has_space() const = 0;
  /// The descriptor belongs to the program by now, so LeasedFile does not close it.
  virtual void disown() = 0;
  /// As LocalMove::try_now().
  virtual bool try_now(LocalMove& move) = 0;
  /// Moves the rest, however long it takes.
  virtual job::Task<void> finish(LocalMove& move) = 0;
};

/// Opens the files of bypass leases. Life cycle: outlives the files that it has opened. One executor.
class LeasedFiles {
 public:
  virtual ~LeasedFiles() = default;
  /// kProtocol: the descriptors are not those of a lease. kBusy: this process has too few free descriptors.
  virtual Result<std::unique_ptr<LeasedFile>> open(UniqueFd page, UniqueFd file, bool for_writing) = 0;
};

/// Files of this machine's kernel. One executor; calls that may wait for a device run on up to four threads, which
/// start when they are needed. The destructor waits for these threads.
class KernelLeasedFiles final : public LeasedFiles {
 public:
  /// The executor and this object outlive the opened files. All moves have ended before the destructor is called.
  explicit KernelLeasedFiles(job::Executor& executor) : executor_(executor) {}
  Result<std::unique_ptr<LeasedFile>> open(UniqueFd page, UniqueFd file, bool for_writing) override;

 private:
  job::Executor& executor_;
  Workers workers_{"spate-bypass", 4};     // run calls that may wait for a device
  std::map<dev_t, WriteLatency> latency_;  // by the device of the file system
};

}  // namespace spate::client
