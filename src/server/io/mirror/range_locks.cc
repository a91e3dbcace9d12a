// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/range_locks.h"

namespace spate::io {
namespace {

/// Whole granules around the range.
RangeLocks::Range rounded(RangeLocks::Range range) {
  constexpr std::uint64_t kMask = RangeLocks::kGranule - 1;
  range.begin &= ~kMask;
  if (range.end < ~std::uint64_t{0} - kMask) range.end = (range.end + kMask) & ~kMask;
  return range;
}

bool overlap(const RangeLocks::Range& a, const RangeLocks::Range& b) { return a.begin < b.end && b.begin < a.end; }

}  // namespace

RangeLocks::Awaiter::Awaiter(RangeLocks& locks, DatafileId datafile, Range range, job::StopToken stop)
    : locks_(locks), datafile_(datafile), range_(rounded(range)), stop_(stop) {}

bool RangeLocks::Awaiter::await_ready() {
  if (stop_.stopped()) return true;
  Lane& lane = locks_.lanes_[datafile_];
  node_ = lane.insert(lane.end(), Node{range_, this});
  granted_ = is_free(lane, node_);
  if (granted_) node_->waiter = nullptr;
  return granted_;
}

void RangeLocks::Awaiter::await_suspend(std::coroutine_handle<> handle) {
  handle_ = handle;
  on_stop_.arm(stop_, [](void* self) { static_cast<Awaiter*>(self)->give_up(); }, this);
}

Result<RangeLocks::Hold> RangeLocks::Awaiter::await_resume() {
  if (!granted_) return stop_.reason();
  return Hold(locks_, datafile_, node_);
}

void RangeLocks::Awaiter::give_up() {
  locks_.release(datafile_, node_);
  locks_.executor_.schedule(handle_);
}

/// Whether nothing before `node` overlaps with it.
bool RangeLocks::is_free(const Lane& lane, Lane::const_iterator node) {
  for (auto earlier = lane.begin(); earlier != node; ++earlier) {
    if (overlap(earlier->range, node->range)) return false;
  }
  return true;
}

void RangeLocks::release(DatafileId datafile, Lane::iterator node) {
  const auto lane = lanes_.find(datafile);
  lane->second.erase(node);
  if (lane->second.empty()) {
    lanes_.erase(lane);
  } else {
    serve(lane->second);
  }
}

void RangeLocks::serve(Lane& lane) {
  for (auto node = lane.begin(); node != lane.end(); ++node) {
    if (node->waiter == nullptr || !is_free(lane, node)) continue;
    Awaiter& waiter = *std::exchange(node->waiter, nullptr);
    waiter.on_stop_.disarm();
    waiter.granted_ = true;
    executor_.schedule(waiter.handle_);
  }
}

}  // namespace spate::io
