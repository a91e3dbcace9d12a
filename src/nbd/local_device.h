// SPDX-License-Identifier: Apache-2.0
// LocalDevice: a file or a block device of this machine.
#pragma once

#include <atomic>
#include <string>

#include "base/unique_fd.h"
#include "base/workers.h"
#include "job/executor.h"
#include "nbd/device.h"
#include "nbd/local_ranges.h"

namespace spate::nbd {

/// See Device for the life cycle. Reads and writes go through the page cache. Calls that may wait for a disk run on
/// `workers`; executor and workers outlive the device. A file in memory (tmpfs) never waits.
class LocalDevice final : public Device {
 public:
  /// kNotSupported unless the path is a regular file or a block device.
  static Result<std::unique_ptr<LocalDevice>> open(const std::string& path, bool read_only, job::Executor& executor,
                                                   Workers& workers);

  std::uint64_t size() override;
  bool read_only() const override { return read_only_; }
  std::string describe() const override { return (file_.block_device ? "device " : "file ") + path_; }
  Result<void> read_now(std::uint64_t offset, MutableByteView memory) override;
  Result<void> write_now(std::uint64_t offset, ByteView memory) override;
  bool takes_pipes() const override { return true; }
  Result<void> write_pipe_now(std::uint64_t offset, int pipe, std::size_t size) override;
  int resident(const Extent& range) override;
  bool has_pages() const override { return true; }
  std::uint32_t least_sent() const override { return file_.block_device ? kLeastSentOfDevice : 0; }

  job::Task<Result<void>> read(std::uint64_t offset, MutableByteView memory) override;
  job::Task<Result<void>> write(std::uint64_t offset, ByteView memory) override;
  job::Task<Result<void>> write_pipe(std::uint64_t offset, int pipe, std::size_t size) override;
  job::Task<Result<void>> flush() override;
  job::Task<Result<void>> trim(Extent range) override;
  job::Task<Result<void>> zero(Extent range, ZeroParams params) override;
  job::Task<Result<void>> make_resident(Extent range) override;
  job::Task<Result<std::vector<StatusExtent>>> status(Extent range, std::size_t max) override;
  job::Task<Result<void>> close() override;

 private:
  /// sendfile handles each page of a block device by itself. Measured: loop devices, docs/block.md.
  static constexpr std::uint32_t kLeastSentOfDevice = 256 * 1024;

  LocalDevice(job::Executor& executor, Workers& workers) : executor_(executor), workers_(workers) {}

  job::Executor& executor_;
  Workers& workers_;
  std::string path_;
  UniqueFd fd_;
  LocalFile file_;
  bool read_only_ = false;
  bool in_memory_ = false;
  std::atomic<bool> residency_known_{true};
};

}  // namespace spate::nbd
