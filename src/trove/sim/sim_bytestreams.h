// SPDX-License-Identifier: Apache-2.0
// The sim module: one process's bytestreams on a simulated disk.
#pragma once

#include "trove/sim/sim_disk.h"

namespace spate::trove {

/// Destroying it simulates the death of the process: operations in flight may have happened or not, and nothing touches
/// the memory of their requests any more. The disk outlives it.
class SimBytestreams final : public Bytestreams {
 public:
  explicit SimBytestreams(SimDisk& disk) : disk_(disk), process_(disk.attach()) {}
  SimBytestreams(const SimBytestreams&) = delete;
  SimBytestreams& operator=(const SimBytestreams&) = delete;
  ~SimBytestreams() override {
    *alive_ = false;
    disk_.detach(process_);
  }

  bool post(const BytestreamRequest& request, void* user, BytestreamCompletion& done) override {
    return disk_.post(process_, request, user, done);
  }
  std::size_t test(std::span<BytestreamCompletion> out) override { return disk_.test(process_, out); }
  /// -1: completions come with virtual time (SimDisk::next_event_time).
  int wait_descriptor() const override { return -1; }
  bool prepare_to_wait() override { return true; }
  Result<std::vector<DatafileId>> list(DatafileId after, std::size_t max) override { return disk_.list(after, max); }
  Result<SpaceInfo> space() override { return disk_.space(); }
  DirectAbility direct() const override { return disk_.direct(); }
  Result<std::unique_ptr<LeasePage>> make_lease(const LeaseTitle& title) override {
    return disk_.lending().make_page(title, alive_);
  }
  Result<std::vector<std::unique_ptr<LeasePage>>> left_leases() override { return disk_.lending().left_pages(alive_); }
  std::string describe() const override { return "sim"; }

 private:
  SimDisk& disk_;
  const SimDisk::ProcessId process_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace spate::trove
