// SPDX-License-Identifier: Apache-2.0
// SpateDevice: a striped file of a Spate file system.
#pragma once

#include <memory>
#include <string>

#include "client/client.h"
#include "job/semaphore.h"
#include "nbd/device.h"

namespace spate::nbd {

/// See Device for the life cycle. All connections share one open of the file, so that each flush covers the writes of
/// all of them. It runs on the client's executor; the client outlives it.
class SpateDevice final : public Device {
 public:
  /// `path` starts at the root of the file system. kNotSupported unless it is a regular file.
  static job::Task<Result<std::unique_ptr<SpateDevice>>> open(client::Client& client, std::string path, bool read_only);

  std::uint64_t size() override { return size_; }
  bool read_only() const override { return read_only_; }
  std::string describe() const override { return "striped file spate:" + path_; }
  std::uint32_t preferred_block() const override;
  bool has_to_look() const override { return true; }
  job::Task<void> look() override;

  job::Task<Result<void>> read(std::uint64_t offset, MutableByteView memory) override;
  job::Task<Result<void>> write(std::uint64_t offset, ByteView memory) override;
  job::Task<Result<void>> flush() override;
  job::Task<Result<void>> trim(Extent range) override;
  job::Task<Result<void>> zero(Extent range, ZeroParams params) override;
  job::Task<Result<void>> make_resident(Extent range) override;
  job::Task<Result<std::vector<StatusExtent>>> status(Extent range, std::size_t max) override;
  job::Task<Result<void>> close() override;

 private:
  SpateDevice(std::string path, std::unique_ptr<client::File> file);

  const std::string path_;
  std::unique_ptr<client::File> file_;
  job::Semaphore flush_turn_;
  std::uint64_t size_ = 0;
  bool read_only_ = false;
};

}  // namespace spate::nbd
