// SPDX-License-Identifier: Apache-2.0
// The mem module: bytestreams in memory, for tests, for benchmarks without a disk, and for scratch space.
#pragma once

#include <memory>

#include "trove/mem/mem_store.h"

namespace spate::trove {

/// Every operation completes in its post; nothing survives the store, which may outlive this object (a restart in a
/// test).
class MemBytestreams final : public Bytestreams {
 public:
  /// `direct_alignment`, for tests of upper layers: the module accepts direct requests with this alignment, and
  /// executes them like any others; 0: it has no direct access.
  explicit MemBytestreams(std::shared_ptr<MemStore> store, std::uint32_t direct_alignment = 0)
      : store_(std::move(store)), direct_alignment_(direct_alignment) {}

  bool post(const BytestreamRequest& request, void* user, BytestreamCompletion& done) override;
  std::size_t test(std::span<BytestreamCompletion> /*out*/) override { return 0; }
  /// -1: there is never anything to wait for.
  int wait_descriptor() const override { return -1; }
  bool prepare_to_wait() override { return true; }
  Result<std::vector<DatafileId>> list(DatafileId after, std::size_t max) override { return store_->list(after, max); }
  Result<SpaceInfo> space() override { return store_->space(); }
  DirectAbility direct() const override {
    return {direct_alignment_, direct_alignment_ > 0 ? "" : "this target is in memory and has no device"};
  }
  Result<void> try_device_memory(MutableByteView /*memory*/) override {
    return direct_alignment_ > 0 ? Result<void>() : Error(Errc::kNotSupported, direct().refusal);
  }
  std::string describe() const override { return "mem"; }

 private:
  std::shared_ptr<MemStore> store_;
  const std::uint32_t direct_alignment_;
};

}  // namespace spate::trove
