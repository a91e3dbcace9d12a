// SPDX-License-Identifier: Apache-2.0
#include "trove/uring/uring_bytestreams.h"

#include <algorithm>

#include "trove/near_extents.h"

namespace spate::trove {
namespace {

/// Steps in the ring at once, for each of its entries: no more than completions fit, so that none overflows.
constexpr std::size_t kStepsPerEntry = 4;
constexpr std::size_t kReapAtOnce = 256;

}  // namespace

UringBytestreams::UringBytestreams(std::shared_ptr<LocalTarget> target, UringOptions options)
    : LocalBytestreams(std::move(target), options.local), options_(options) {}

Result<std::unique_ptr<UringBytestreams>> UringBytestreams::make(std::shared_ptr<LocalTarget> target,
                                                                 UringOptions options) {
  options.ring_entries = std::clamp(options.ring_entries, 8U, 4096U);
  std::unique_ptr<UringBytestreams> made(new UringBytestreams(std::move(target), options));
  SPATE_TRY(made->ring_, Ring::make(options.ring_entries, made->queue().descriptor(), options.skip_setups));
  return made;
}

UringBytestreams::~UringBytestreams() {
  while (!ops_.empty()) {
    SPATE_CHECK(ring_->owned_by_caller());
    go_on();
    ring_->wait_one();
    ring_->reap(kReapAtOnce, [this](void* user, int result) { take_result(*static_cast<RingStep*>(user), result); });
  }
}

std::string UringBytestreams::describe() const { return "uring(" + ring_->flags_text() + ")"; }

bool UringBytestreams::own_ring() {
  if (ring_->attach()) return true;
  if (!ops_.empty()) return false;
  Result<std::unique_ptr<Ring>> fresh = Ring::make(options_.ring_entries, queue().descriptor(), options_.skip_setups);
  if (!fresh) return false;
  ring_ = *std::move(fresh);
  if (!ring_->attach()) return false;
  for (unsigned slot = 0; slot < regions_.size(); ++slot) {
    regions_[slot].in_ring = !regions_[slot].memory.empty() && ring_->set_region(slot, regions_[slot].memory) == 0;
  }
  return true;
}

Result<void> UringBytestreams::register_memory(MutableByteView memory) {
  const auto is_free = [](const Region& region) { return region.memory.empty(); };
  const auto place = std::find_if(regions_.begin(), regions_.end(), is_free);
  const auto slot = static_cast<unsigned>(place - regions_.begin());
  if (slot == Ring::kRegions) return Error(Errc::kBusy, "register memory");
  if (!own_ring()) return Error(Errc::kNotSupported, "register memory");
  const int failed = ring_->set_region(slot, memory);
  if (failed != 0) return errno_error(-failed, "register memory with io_uring");
  if (place == regions_.end()) regions_.emplace_back();
  regions_[slot] = {memory, true};
  return {};
}

void UringBytestreams::forget_memory(MutableByteView memory) {
  for (unsigned slot = 0; slot < regions_.size(); ++slot) {
    if (regions_[slot].memory.data() != memory.data()) continue;
    // If the ring's thread is gone, the kernel releases the regions with the ring.
    if (regions_[slot].in_ring && ring_->attach()) ring_->set_region(slot, {});
    regions_[slot] = {};
  }
}

std::optional<unsigned> UringBytestreams::region_of(const iovec& piece) const {
  const auto* const begin = static_cast<const std::byte*>(piece.iov_base);
  for (unsigned slot = 0; slot < regions_.size(); ++slot) {
    const Region& region = regions_[slot];
    const std::byte* const end = region.memory.data() + region.memory.size();
    if (region.in_ring && begin >= region.memory.data() && begin < end &&
        piece.iov_len <= static_cast<std::size_t>(end - begin))
      return slot;
  }
  return std::nullopt;
}

void UringBytestreams::start(std::unique_ptr<QueuedOp>& op) {
  if (op->request.op != BytestreamOp::kRead && op->request.op != BytestreamOp::kWrite) return;
  // The kernel passes a buffered write to one of its worker threads. For a single write our own thread is faster (4 KiB
  // on ext4: 23 us against 47); for several at a time the ring is (16 at a time: 4 us against 8). trove_bench, 2026-11.
  if (op->request.op == BytestreamOp::kWrite && !op->request.direct && options_.lone_writes_by_threads &&
      ops_.empty() && !threads_busy())
    return;
  // One thread moves many pieces with one call.
  if (!op->request.direct && has_near_extents(op->request.extents)) return;
  DatafileStore::Datafile datafile = target().store().find(op->request.id);
  if (datafile == nullptr || !own_ring()) return;
  auto begun = std::make_unique<RingOp>(std::move(op), std::move(datafile));
  if (!begun->begun()) {
    op = begun->give_back();
    return;
  }
  RingOp& ring_op = *begun;
  ops_.emplace(&ring_op, std::move(begun));
  advance(ring_op);
  end_if_over(ring_op);
}

bool UringBytestreams::give(RingStep& step) {
  if (steps_in_ring_ >= options_.ring_entries * kStepsPerEntry) return false;
  io_uring_sqe* const sqe = ring_->entry();
  if (sqe == nullptr) return false;
  const int fd = step.op->fd();
  const iovec* const pieces = step.pieces.data() + step.first;
  const auto count = static_cast<unsigned>(step.pieces.size() - step.first);
  // If the memory is one piece that is registered with the ring, name its slot: then the kernel need not look its pages
  // up and pin them.
  const std::optional<unsigned> region = count == 1 ? region_of(*pieces) : std::nullopt;
  step.registered = region.has_value();
  if (region) {
    const auto bytes = static_cast<unsigned>(pieces->iov_len);
    const auto slot = static_cast<int>(*region);
    if (step.op->is_write()) {
      io_uring_prep_write_fixed(sqe, fd, pieces->iov_base, bytes, step.offset, slot);
    } else {
      io_uring_prep_read_fixed(sqe, fd, pieces->iov_base, bytes, step.offset, slot);
    }
  } else if (step.op->is_write()) {
    io_uring_prep_writev(sqe, fd, pieces, count, step.offset);
  } else {
    io_uring_prep_readv(sqe, fd, pieces, count, step.offset);
  }
  io_uring_sqe_set_data(sqe, &step);
  ++steps_in_ring_;
  return true;
}

void UringBytestreams::advance(RingOp& op) {
  while (RingStep* const step = op.next_step()) {
    if (give(*step)) continue;
    rest_steps_.push_back(step);
    op.waits_for_ring = true;
    waiting_ops_.push_back(&op);
    return;
  }
}

void UringBytestreams::end_if_over(RingOp& op) {
  if (!op.over()) return;
  if (op.waits_for_ring) std::erase(waiting_ops_, &op);
  queue().push(op.finish(target().store()));
  ops_.erase(&op);
}

void UringBytestreams::take_result(RingStep& step, int result) {
  --steps_in_ring_;
  RingOp& op = *step.op;
  if (op.take_result(step, result)) {
    rest_steps_.push_back(&step);
    return;
  }
  if (!op.waits_for_ring) advance(op);
  end_if_over(op);
}

void UringBytestreams::go_on() {
  while (!rest_steps_.empty() && give(*rest_steps_.front())) rest_steps_.pop_front();
  while (rest_steps_.empty() && !waiting_ops_.empty()) {
    RingOp* const op = waiting_ops_.front();
    waiting_ops_.pop_front();
    op->waits_for_ring = false;
    advance(*op);
  }
  ring_->submit();
}

std::size_t UringBytestreams::test(std::span<BytestreamCompletion> out) {
  if (!ops_.empty()) {
    SPATE_CHECK(ring_->owned_by_caller());
    ring_->set_events(false);
    go_on();
    ring_->reap(kReapAtOnce, [this](void* user, int result) { take_result(*static_cast<RingStep*>(user), result); });
    go_on();
  }
  return queue().pop(out);
}

bool UringBytestreams::prepare_to_wait() {
  if (ops_.empty()) return LocalBytestreams::prepare_to_wait();
  go_on();
  ring_->set_events(true);
  if (LocalBytestreams::prepare_to_wait() && !ring_->pending()) return true;
  ring_->set_events(false);
  return false;
}

}  // namespace spate::trove
