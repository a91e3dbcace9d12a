// SPDX-License-Identifier: Apache-2.0
#include "client/data/transfer_state.h"

#include "client/bypass/bypass.h"
#include "datatype/list_parts.h"
#include "datatype/measure.h"
#include "job/run_all.h"

namespace spate::client {
namespace {

/// The most bytes that a reply with inline data has besides the data: header, datafile states, lengths.
constexpr std::uint32_t kReplyOverhead = 4096;
constexpr std::uint32_t kBytesPerSlotInReply = 48;

BypassParams bypass_params(const Transfer& transfer, const Share& share, bool is_write) {
  const TransferTarget& target = transfer.target;
  return {target.handle, target.capability, target.path, *share.channel, share.slots, share.total_bytes(), is_write};
}

/// Each server gets its part of a list. Otherwise every server would decode and skip the pieces of all others.
void describe_shares(const Transfer& transfer, std::vector<Share>& shares) {
  if (transfer.what.kind() != datatype::DescriptionKind::kList || shares.size() < 2) {
    for (Share& share : shares) share.what = transfer.what;
    return;
  }
  std::vector<std::size_t> share_of(transfer.target.distribution.slot_count(), shares.size());
  for (std::size_t i = 0; i < shares.size(); ++i) {
    for (const wire::SlotRef& ref : shares[i].slots) share_of[ref.slot] = i;
  }
  auto parts = datatype::split_list(transfer.what, transfer.target.distribution, share_of, shares.size());
  for (std::size_t i = 0; i < shares.size(); ++i) shares[i].what = std::move(parts[i]);
}

}  // namespace

Result<std::vector<Share>> shares_of(const Transfer& transfer) {
  const auto slots = datatype::slots_touched(transfer.what, transfer.target.distribution);
  SPATE_TRY(auto shares, make_shares(transfer.target, slots));
  describe_shares(transfer, shares);
  for (Share& share : shares) {
    for (const auto& ref : share.slots) {
      share.stream_bytes.push_back(datatype::bytes_for_slot(share.what, transfer.target.distribution, ref.slot));
    }
  }
  return shares;
}

job::Task<Result<TransferResult>> run_transfer(Transfer& transfer, std::vector<job::Task<Result<void>>> tasks) {
  if (tasks.empty()) co_return TransferResult();
  SPATE_CO_TRY(std::ignore, co_await job::run_all(transfer.target.session.executor(), std::move(tasks)));
  TransferResult result;
  result.bytes = transfer.what.total_bytes();
  result.slots = std::move(transfer.states);
  co_return result;
}

rpc::CallOptions call_options(const Transfer& transfer, const Share& share) {
  rpc::CallOptions options = limits_of(share, transfer.limits).call_options();
  if (transfer.target.capability.handle) options.capability = &transfer.target.capability;  // a question needs none
  options.reply_room = kReplyOverhead + static_cast<std::uint32_t>(share.slots.size()) * kBytesPerSlotInReply;
  return options;
}

Result<void> note_states(Transfer& transfer, const Share& share, std::span<const wire::DatafileState> states,
                         Incarnation incarnation) {
  if (states.size() != share.slots.size())
    return Error(Errc::kProtocol, share.channel->name() + " answered for other slots than it was asked for");
  if (share.group) {
    Groups& groups = transfer.target.session.servers().groups();
    groups.note_answer(share.group, share.channel->server(), incarnation);
    incarnation = groups.loss(share.group);
  }
  for (std::size_t i = 0; i < states.size(); ++i) {
    transfer.states.push_back(SlotState{share.slots[i].slot, states[i], incarnation});
  }
  return {};
}

Error refused_by(const Share& share, Error error) {
  switch (error.code()) {
    case Errc::kNoSpace:
    case Errc::kNoMemory:
    case Errc::kIoError:
    case Errc::kCorrupt: return std::move(error).within(share.channel->name());
    default: return error;
  }
}

bool in_message(const Transfer& transfer, const Share& share, std::uint32_t most_bytes) {
  return transfer.target.path == wire::DataPath::kAutomatic && share.total_bytes() <= most_bytes &&
         datatype::may_be_inline(share.what, share.slots.size());
}

bool is_lost(Errc code) { return code == Errc::kConnectionLost || code == Errc::kUnreachable; }

bool may_bypass(const Transfer& transfer, const Share& share, bool is_write) {
  const TransferTarget& target = transfer.target;
  if (share.group) return target.path == wire::DataPath::kBypass;  // the server would only refuse that path
  if (target.bypass == nullptr) return target.path == wire::DataPath::kBypass;
  return target.bypass->considers(bypass_params(transfer, share, is_write));
}

job::Task<Result<bool>> move_by_client(Transfer& transfer, const Share& share, bool is_write) {
  const TransferTarget& target = transfer.target;
  const BypassParams params = bypass_params(transfer, share, is_write);
  const bool forced = target.path == wire::DataPath::kBypass;
  bool able = target.bypass != nullptr && transfer.what.ordered() && !share.group;
  if (able) able = co_await target.bypass->ready(params, transfer.limits);
  std::vector<SlotState> states;
  for (std::size_t i = 0; able && i < share.slots.size(); ++i) {
    const std::uint32_t slot = share.slots[i].slot;
    const SlotWork work{transfer.what, target.distribution, transfer.memory, slot, is_write};
    auto moved = co_await target.bypass->move(work);
    if (!moved) co_return refused_by(share, std::move(moved).error());
    able = moved->has_value();
    if (!able) break;
    if (!is_write) transfer.sent[slot] = (*moved)->bytes;
    SlotState state{slot, {}, share.channel->incarnation(), is_write};
    state.state.size = (*moved)->datafile_bytes;
    state.state.change_counter = (*moved)->counter;
    states.push_back(state);
  }
  if (able) transfer.states.insert(transfer.states.end(), states.begin(), states.end());
  if (!able && forced) {
    std::string why = target.bypass != nullptr ? target.bypass->refusal() : "this client has it switched off";
    if (share.group) why = "the file's data is mirrored";
    co_return Error(Errc::kNotSupported, "no bypass: " + why);
  }
  co_return able;
}

}  // namespace spate::client
