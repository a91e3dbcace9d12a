// SPDX-License-Identifier: Apache-2.0
// RequestSlots: gives changing requests their ids, so that a server answers a resend and does not run it again
// (docs/consistency.md, "Resends").
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "job/semaphore.h"
#include "wire/header.h"

namespace spate::client {

class HandoverState;

/// One per session. A slot serves one request at a time; its sequence grows with each. With a handover state, a slot is
/// used again only once the program's call of its last request has been answered (HandoverState::call_answered()): else
/// a process that follows would run a request again which the server has answered already. One executor.
class RequestSlots {
 public:
  /// `handover state`: may be null.
  RequestSlots(job::Executor& executor, HandoverState* handover) : executor_(executor), handover_(handover) {}

  /// Called when a session was opened, with `count` slots. Sequences continue, so that no id is ever used twice.
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

  /// Which request it is to be: part of the program's call `request_id`, 0 if that is not known.
  struct Params {
    std::uint64_t request_id = 0;
    std::uint64_t digest = 0;
  };
  /// Waits for a free slot. A request that an earlier process began gets the id that it had.
  job::Task<Result<Use>> acquire(Params params, job::StopToken stop);

 private:
  std::uint16_t take(Params params);
  std::vector<std::uint16_t>::iterator best_free();
  void give_back(std::uint16_t slot);

  job::Executor& executor_;
  HandoverState* const handover_;
  std::unique_ptr<job::Semaphore> units_;
  std::vector<std::uint16_t> free_;  // the last is taken next
  std::vector<std::uint64_t> sequences_;
  std::vector<bool> inherited_;  // the slot's last request is an earlier process's
};

}  // namespace spate::client
