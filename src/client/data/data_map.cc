// SPDX-License-Identifier: Apache-2.0
#include "client/data/data_map.h"

#include <algorithm>
#include <numeric>

#include "client/data/primary.h"
#include "client/data/transfer_state.h"
#include "job/run_all.h"

namespace spate::client {
namespace {

constexpr std::uint32_t kRangesReplyOverhead = 1024;
constexpr std::uint32_t kRangesReplyPerSlot = 64;
constexpr std::uint32_t kBytesPerRange = 16;
constexpr std::uint64_t kAllSeen = (std::uint64_t{1} << 63U) - 1;

/// A question to one server that is not answered yet. Lives in the frame of ask_data().
struct Question {
  const TransferTarget& target;
  std::uint64_t from = 0;
  std::uint32_t max_ranges = 0;
  Limits limits;
  std::vector<wire::SlotRanges> slots;
  std::vector<std::uint64_t> sizes;
};

/// Checks the ranges of a server's answer, which must ascend and lie at or after the requested offset.
Result<void> check_ranges(const wire::SlotRanges& slot, std::uint64_t from) {
  std::uint64_t last = from;
  for (const wire::DataRange& range : slot.ranges) {
    if (range.offset < last || range.size == 0 || range.offset > kAllSeen || range.size > kAllSeen - range.offset)
      return Error(Errc::kProtocol, "the server sent ranges that do not ascend");
    last = range.offset + range.size;
  }
  if (slot.complete_to < last)
    return Error(Errc::kProtocol, "the server sent a range beyond the one that it had examined");
  return {};
}

job::Task<Result<void>> ask_ranges(Question& question, const Share& share) {
  const TransferTarget& target = question.target;
  wire::DatafileRangesRequest request;
  request.handle = target.handle;
  request.slots = share.slots;
  for (const wire::SlotRef& ref : share.slots)
    request.offsets.push_back(target.distribution.physical_size(ref.slot, question.from));
  const auto slot_count = static_cast<std::uint32_t>(share.slots.size());
  request.max_ranges = std::clamp(wire::kMaxRanges / slot_count, 1U, question.max_ranges);
  rpc::CallOptions options = limits_of(share, question.limits).call_options();
  options.capability = &target.capability;
  options.reply_room = kRangesReplyOverhead + slot_count * (kRangesReplyPerSlot + request.max_ranges * kBytesPerRange);
  Bytes body;
  wire::encode_body(request, body);
  SPATE_CO_TRY(auto answer,
               co_await call_share<wire::DatafileRangesReply>(share, wire::Op::kDatafileRanges, body, options));
  wire::DatafileRangesReply& reply = answer.reply;
  if (reply.ranges.size() != slot_count || reply.datafiles.size() != slot_count)
    co_return Error(Errc::kProtocol, share.channel->name() + " answered for other slots than it was asked for");
  for (std::size_t i = 0; i < slot_count; ++i) {
    SPATE_CO_TRY(std::ignore, check_ranges(reply.ranges[i], request.offsets[i]));
    question.slots[share.slots[i].slot] = std::move(reply.ranges[i]);
    question.sizes[share.slots[i].slot] = reply.datafiles[i].size;
  }
  co_return Result<void>();
}

}  // namespace

DataMap::DataMap(const Distribution& distribution, std::vector<wire::SlotRanges> slots,
                 std::span<const std::uint64_t> sizes)
    : distribution_(&distribution),
      slots_(std::move(slots)),
      file_size_(distribution.logical_size(sizes)),
      known_to_(kMaxFileBytes) {
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const std::uint64_t complete_to = slots_[slot].complete_to;
    if (complete_to < kAllSeen) known_to_ = std::min(known_to_, distribution_->to_logical(slot, complete_to));
  }
}

std::uint64_t DataMap::next_data(std::uint64_t from) const {
  std::uint64_t nearest = file_size_;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const std::uint64_t physical = distribution_->physical_size(slot, from);
    for (const wire::DataRange& range : slots_[slot].ranges) {
      if (range.offset + range.size <= physical) continue;
      nearest = std::min(nearest, distribution_->to_logical(slot, std::max(range.offset, physical)));
      break;
    }
  }
  return nearest;
}

std::uint64_t DataMap::next_hole(std::uint64_t from) const {
  std::uint64_t nearest = file_size_;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    std::uint64_t physical = distribution_->physical_size(slot, from);
    for (const wire::DataRange& range : slots_[slot].ranges) {
      if (range.offset > physical) break;
      physical = std::max(physical, range.offset + range.size);
    }
    nearest = std::min(nearest, distribution_->to_logical(slot, physical));
  }
  return nearest;
}

job::Task<Result<DataMap>> ask_data(TransferTarget target, std::uint64_t from, std::uint32_t max_ranges,
                                    Limits limits) {
  const std::size_t slot_count = target.layout.slots.size();
  Question question{target,
                    from,
                    max_ranges,
                    limits,
                    std::vector<wire::SlotRanges>(slot_count),
                    std::vector<std::uint64_t>(slot_count, 0)};
  std::vector<std::uint32_t> all(slot_count);
  std::iota(all.begin(), all.end(), 0U);
  SPATE_CO_TRY(const std::vector<Share> shares, make_shares(target, all));
  std::vector<job::Task<Result<void>>> tasks;
  for (const Share& share : shares) {
    const auto once = [&question](const Share& now) { return ask_ranges(question, now); };
    tasks.push_back(run_share(target.session, share, limits, once));
  }
  SPATE_CO_TRY(std::ignore, co_await job::run_all(target.session.executor(), std::move(tasks)));
  co_return DataMap(target.distribution, std::move(question.slots), question.sizes);
}

}  // namespace spate::client
