// SPDX-License-Identifier: Apache-2.0
#include "client/data/bulk.h"

#include <algorithm>

#include "datatype/slot_cursor.h"

namespace spate::client {

BulkData::BulkData(const TransferTarget& target, const Share& share, const datatype::Description& what,
                   const datatype::MemoryMap& memory, Direction direction, std::uint32_t unit_bytes)
    : target_(target), share_(share), what_(what), memory_(memory), direction_(direction), unit_bytes_(unit_bytes) {}

void BulkData::post(bmi::Address peer, bmi::Tag reply_tag, const std::shared_ptr<wire::BulkSeals>& seals) {
  SPATE_CHECK(units_.empty());
  seals_ = seals;
  for (std::size_t i = 0; i < share_.slots.size(); ++i) post_slot(i, peer, bmi::Tag(reply_tag.value + 1 + i));
}

void BulkData::post_slot(std::size_t index, bmi::Address peer, bmi::Tag tag) {
  datatype::SlotCursor cursor(what_, target_.distribution, share_.slots[index].slot);
  std::vector<datatype::SlotPiece> pieces;
  std::vector<MutableByteView> views;
  std::uint64_t posted = 0;
  std::uint64_t number = 0;
  while (posted < share_.stream_bytes[index]) {
    // Units are filled completely, because the server divides the same stream at the same places.
    std::uint64_t size = 0;
    views.clear();
    while (size < unit_bytes_ && !cursor.done()) {
      datatype::BatchLimits limits;
      limits.max_bytes = unit_bytes_ - size;
      size += cursor.next_batch(limits, pieces);
      for (const auto& piece : pieces) memory_.append(piece.stream, piece.size, views);
    }
    auto unit = std::make_unique<Unit>(target_.session.network());
    unit->slot_index = index;
    unit->size = size;
    unit->stream_end = posted += size;
    unit->tag = tag;
    unit->number = number++;
    bmi::Message message;
    message.peer = peer;
    message.tag = tag;
    message.message_class = bmi::MessageClass::kBulk;
    post_unit(*unit, message, views);
    units_.push_back(std::move(unit));
  }
}

void BulkData::post_unit(Unit& unit, bmi::Message& message, std::span<const MutableByteView> views) {
  segments_.clear();
  if (seals_ != nullptr) {
    unit.views.assign(views.begin(), views.end());
    if (direction_ == Direction::kSend) unit.code = seals_->seal(unit.tag.value, unit.number, unit.views);
    segments_.push_back(bmi::Segment::of(MutableByteView(unit.code)));
  }
  for (const MutableByteView view : views) segments_.push_back(bmi::Segment::of(view));
  message.segments = segments_;
  if (direction_ == Direction::kReceive) {
    unit.op.post_recv(message);
  } else {
    unit.op.post_send(message);
  }
}

/// Checks a message that moved `moved` bytes and was announced as carrying `expected` bytes of the stream.
Result<void> BulkData::check(Unit& unit, std::uint64_t moved, std::uint64_t expected) {
  if (moved != expected + (seals_ != nullptr ? wire::BulkSeals::kSize : 0)) {
    return Error(Errc::kProtocol, "server sent a bulk message of another length than it announced");
  }
  if (seals_ == nullptr || direction_ == Direction::kSend) return {};
  std::uint64_t left = expected;
  for (ByteView& view : unit.views) {
    view = view.first(std::min<std::uint64_t>(view.size(), left));
    left -= view.size();
  }
  if (seals_->genuine(unit.tag.value, unit.number, unit.views, unit.code)) return {};
  return wire::altered_bulk_message();
}

job::Task<void> BulkData::abandon() {
  for (auto& unit : units_) unit->op.cancel();
  while (!units_.empty()) {
    std::ignore = co_await units_.front()->op.wait();
    units_.pop_front();
  }
}

job::Task<Result<void>> BulkData::finish(std::span<const std::uint64_t> stream_bytes, job::StopToken stop) {
  Result<void> result;
  for (auto& unit : units_) {
    const std::uint64_t begin = unit->stream_end - unit->size;
    if (begin >= stream_bytes[unit->slot_index]) unit->op.cancel();  // the stream ended before this unit
  }
  while (!units_.empty()) {
    Unit& unit = *units_.front();
    const std::uint64_t begin = unit.stream_end - unit.size;
    const std::uint64_t there = stream_bytes[unit.slot_index];
    if (!result) unit.op.cancel();
    auto moved = co_await unit.op.wait(stop);
    if (result && begin < there) {
      const std::uint64_t expected = std::min(unit.size, there - begin);
      result = moved ? check(unit, *moved, expected) : Result<void>(std::move(moved).error());
    }
    units_.pop_front();
  }
  co_return result;
}

}  // namespace spate::client
