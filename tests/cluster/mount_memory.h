// SPDX-License-Identifier: Apache-2.0
// MountMemory: the memory of a mount, which outlives its processes.
#pragma once

#include <sys/mman.h>

#include <memory>

#include "client/options.h"
#include "client/session/gather_memory.h"
#include "client/session/handover_state.h"
#include "client/session/queue_memory.h"
#include "tests/cluster/memory_copy.h"

namespace spate::cluster {

/// State, queue and gathered bytes of one mount. A copy is what the next process finds if the present one dies now.
class MountMemory {
 public:
  explicit MountMemory(std::size_t pieces = 4)
      : MountMemory(UniqueFd(::memfd_create("state", MFD_CLOEXEC)), UniqueFd(::memfd_create("queue", MFD_CLOEXEC)),
                    UniqueFd(::memfd_create("gather", MFD_CLOEXEC)), pieces) {}
  MountMemory(const MountMemory& other)
      : MountMemory(memory_copy(other.state_.get()), memory_copy(other.queue_.get()), memory_copy(other.bytes_.get()),
                    0) {}
  MountMemory& operator=(const MountMemory&) = delete;

  void lend_to(client::Options& options) const {
    options.handover = handover_.get();
    options.queue = changes_.get();
    options.gather = gather_.get();
  }
  client::GatherMemory& gather() { return *gather_; }

 private:
  MountMemory(UniqueFd state, UniqueFd queue, UniqueFd bytes, std::size_t pieces)
      : state_(std::move(state)),
        queue_(std::move(queue)),
        bytes_(std::move(bytes)),
        handover_(client::HandoverState::open(state_.get()).value()),
        changes_(client::QueueMemory::open(queue_.get(), std::size_t{1} << 18U).value()),
        gather_(client::GatherMemory::open(bytes_.get(), pieces).value()) {}

  UniqueFd state_;
  UniqueFd queue_;
  UniqueFd bytes_;
  std::unique_ptr<client::HandoverState> handover_;
  std::unique_ptr<client::QueueMemory> changes_;
  std::unique_ptr<client::GatherMemory> gather_;
};

}  // namespace spate::cluster
