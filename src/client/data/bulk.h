// SPDX-License-Identifier: Apache-2.0
// BulkData: the bulk messages of one share of a read or write. They are posted again for each attempt of the request.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "client/data/share.h"
#include "datatype/description.h"
#include "datatype/memory_map.h"
#include "job/network.h"

namespace spate::client {

/// Posts one receive (or send) for each `unit_bytes` of each slot's stream, directly on the caller's memory: list
/// operations on the pieces that the distribution gives (BMI sec. 2.2). Life cycle: construct -> post() for each
/// attempt of the request, with abandon() awaited after a failed one -> finish() awaited -> destroyed. The network uses
/// the memory until finish() or abandon() has ended. One executor.
class BulkData final : public rpc::Bulk {
 public:
  enum class Direction { kReceive, kSend };

  /// `share`, `what` and the memory outlive this object. `unit_bytes`: of each message but the last one of a stream, as
  /// the request says.
  BulkData(const TransferTarget& target, const Share& share, const datatype::Description& what,
           const datatype::MemoryMap& memory, Direction direction, std::uint32_t unit_bytes);

  void post(bmi::Address peer, bmi::Tag reply_tag, const std::shared_ptr<wire::BulkSeals>& seals) override;
  job::Task<void> abandon() override;
  /// Call it after the reply. Waits for the messages that carry `stream_bytes` of each slot's stream, and cancels the
  /// others. kCorrupt: a message was altered on its way.
  job::Task<Result<void>> finish(std::span<const std::uint64_t> stream_bytes, job::StopToken stop);

 private:
  struct Unit {
    explicit Unit(job::NetworkContext& context) : op(context) {}
    job::NetworkOp op;
    std::size_t slot_index = 0;
    std::uint64_t stream_end = 0;  // where this unit ends in the slot's stream
    std::uint64_t size = 0;
    // Used only if bulk data is sealed:
    bmi::Tag tag;
    std::uint64_t number = 0;  // number in the slot's stream
    wire::BulkSeals::Code code{};
    std::vector<ByteView> views;  // of a receive: where the data goes
  };
  void post_slot(std::size_t index, bmi::Address peer, bmi::Tag tag);
  void post_unit(Unit& unit, bmi::Message& message, std::span<const MutableByteView> views);
  Result<void> check(Unit& unit, std::uint64_t moved, std::uint64_t expected);

  const TransferTarget& target_;
  const Share& share_;
  const datatype::Description& what_;
  const datatype::MemoryMap& memory_;
  Direction direction_;
  const std::uint32_t unit_bytes_;
  std::shared_ptr<wire::BulkSeals> seals_;  // null: bulk data is not sealed
  std::vector<bmi::Segment> segments_;      // of the message that is being posted
  std::deque<std::unique_ptr<Unit>> units_;
};

}  // namespace spate::client
