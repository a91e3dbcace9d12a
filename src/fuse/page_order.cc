// SPDX-License-Identifier: Apache-2.0
#include "fuse/page_order.h"

#include <algorithm>
#include <limits>

#include "job/executor.h"

namespace spate::fuse {
namespace {

// Between the moment at which the kernel fills the pages and the one at which the mount reads the request lies no more
// than a copy of 1 MiB, and whatever else runs on the processor meanwhile.
constexpr Duration kDoubt = std::chrono::seconds(1);
constexpr Duration kLeastDoubt = std::chrono::milliseconds(1);

}  // namespace

PageOrder::Write::Write(PageOrder& order, Handle handle, Span span, pid_t caller, bool sent_again) : order_(order) {
  const std::lock_guard lock(order.mutex_);
  entry_ = order.writes_.insert(order.writes_.end(), {handle, span, order.next_++, nullptr});
  const Dropped& dropped = order.place(handle);
  // A thread that reads and then writes has begun to write after its read.
  const bool by_another = dropped.more_readers || dropped.reader != caller;
  const bool read = dropped.handle == handle && dropped.read.overlaps(span) && by_another;
  doubtful_ = sent_again || (read && order.clock_.now() < dropped.until);
}

/// The kernel begins the next write of the file after the answer to this one. Everything that was read until now is
/// older.
void PageOrder::Write::applied() {
  if (ended_) return;
  ended_ = true;
  const std::lock_guard lock(order_.mutex_);
  Dropped& dropped = order_.place(entry_->handle);
  if (dropped.handle == entry_->handle && !of_map_) dropped.read = {};
  if (entry_->applied != nullptr) order_.executor_.post([event = entry_->applied] { event->set(); });
  order_.writes_.erase(entry_);
}

PageOrder::Dropped& PageOrder::place(Handle handle) { return dropped_[handle.value % dropped_.size()]; }

void PageOrder::dropping(Handle handle, bool all) {
  const std::lock_guard lock(mutex_);
  Dropped& dropped = place(handle);
  if (all || dropped.handle != handle) dropped = {};
  dropped.handle = handle;
  dropped.doubt = kDoubt;
  dropped.until = clock_.now() + kDoubt;
}

void PageOrder::not_dropped(Handle handle) {
  const std::lock_guard lock(mutex_);
  Dropped& dropped = place(handle);
  if (dropped.handle != handle) return;
  dropped.read = {0, std::numeric_limits<std::uint64_t>::max()};
  dropped.more_readers = true;
}

void PageOrder::dropping_again(Handle handle) {
  const std::lock_guard lock(mutex_);
  Dropped& dropped = place(handle);
  if (dropped.handle != handle || dropped.doubt < kLeastDoubt) return;
  dropped.doubt /= 2;
  dropped.until = clock_.now() + dropped.doubt;
}

bool PageOrder::under_way(Handle handle, Span span) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(writes_, [&](const UnderWay& w) { return w.handle == handle && w.span.overlaps(span); });
}

std::shared_ptr<job::Event> PageOrder::write_before(Handle handle, Span span, std::uint64_t number) {
  for (UnderWay& write : writes_) {
    if (write.number >= number) break;
    if (write.handle != handle || !write.span.overlaps(span)) continue;
    if (write.applied == nullptr) write.applied = std::make_shared<job::Event>(executor_);
    return write.applied;
  }
  return nullptr;
}

job::Task<void> PageOrder::before_read(Handle handle, Span span, pid_t caller) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = next_;
    Dropped& dropped = place(handle);
    if (dropped.handle == handle) {
      const bool first = dropped.read.first == dropped.read.end;
      dropped.more_readers = !first && (dropped.more_readers || dropped.reader != caller);
      dropped.reader = caller;
      dropped.read =
          first ? span : Span{std::min(dropped.read.first, span.first), std::max(dropped.read.end, span.end)};
    }
  }
  for (;;) {
    std::shared_ptr<job::Event> applied;
    {
      const std::lock_guard lock(mutex_);
      applied = write_before(handle, span, number);
    }
    if (applied == nullptr) co_return;
    std::ignore = co_await applied->wait();
  }
}

}  // namespace spate::fuse
