// SPDX-License-Identifier: Apache-2.0
// RequestSlots: gives an id to each request that changes something, so that a server can answer a resent request
// without running it again (docs/consistency.md, "Resends").
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "job/semaphore.h"
#include "wire/header.h"

namespace spate::client {

class HandoverState;

/// One object per session. A slot serves one request at a time, and its sequence grows with each request. With a
/// handover state, a slot is used again only after the program's call of its last request has been answered
/// (HandoverState::call_answered()). Otherwise the next process could repeat a request that the server has forgotten.
/// One executor.
class RequestSlots {
 public:
  /// `handover` may be null.
  RequestSlots(job::Executor& executor, HandoverState* handover) : executor_(executor), handover_(handover) {}

  /// Call it when a session was opened with `count` slots. Sequences continue, so no id is used twice.
  void reset(std::uint16_t count);
  bool ready() const { return units_ != nullptr; }

  class Use {
   public:
    Use() = default;
    Use(RequestSlots& owner, std::uint16_t slot, job::Semaphore::Units units)
        : owner_(&owner), slot_(slot), units_(std::move(units)) {}
    Use(Use&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), slot_(other.slot_), units_(std::move(other.units_)) {}
    Use& operator=(Use&&) = delete;
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (owner_ != nullptr) owner_->give_back(slot_);
    }
    wire::RequestId id() const { return {slot_, owner_->sequences_[slot_]}; }

   private:
    RequestSlots* owner_ = nullptr;
    std::uint16_t slot_ = 0;
    job::Semaphore::Units units_;
  };

  /// Describes the request. `request_id`: the program's call that the request belongs to; 0: unknown.
  struct Params {
    std::uint64_t request_id = 0;
    std::uint64_t digest = 0;
  };
  /// Waits for a free slot. A request that an earlier process began gets the id that it had there.
  job::Task<Result<Use>> acquire(Params params, job::StopToken stop);

 private:
  std::uint16_t take(Params params);
  std::vector<std::uint16_t>::iterator best_free();
  void give_back(std::uint16_t slot);

  job::Executor& executor_;
  HandoverState* const handover_;
  std::unique_ptr<job::Semaphore> units_;
  std::vector<std::uint16_t> free_;  // the last one is taken next
  std::vector<std::uint64_t> sequences_;
  std::vector<bool> inherited_;  // the last request of the slot is that of an earlier process
};

}  // namespace spate::client
