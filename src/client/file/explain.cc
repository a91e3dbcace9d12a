// SPDX-License-Identifier: Apache-2.0
#include "client/file/explain.h"

#include "client/data/share.h"
#include "datatype/measure.h"

namespace spate::client {
namespace {

/// Why this client's options refuse the bypass for a transfer with automatic path. Empty: they do not.
std::string own_refusal(const Options& options, bool is_write) {
  if (options.bypass == BypassMode::kOff) return "client.bypass is off";
  if (is_write && options.bypass != BypassMode::kWrite) return "client.bypass is for reading only";
  return {};
}

SlotPath answer_for(const TransferTarget& target, const Share& share, std::size_t index,
                    const wire::ExplainedPath& told, bool is_write) {
  const Options& options = target.session.options();
  SlotPath answer;
  answer.slot = share.slots[index].slot;
  answer.target = share.slots[index].target;
  answer.server = share.channel->name();
  answer.path = told.path == wire::DataPath::kAutomatic ? "refused" : std::string(wire::name_of(told.path));
  answer.why = told.why;
  const bool small = share.total_bytes() <= (is_write ? options.inline_write_bytes : options.inline_read_bytes);
  if (small && target.path == wire::DataPath::kAutomatic && told.path != wire::DataPath::kAutomatic) {
    answer.path = "inline";
    answer.why = std::string("so little travels in the ") + (is_write ? "request" : "reply") + " itself";
  }
  const bool told_to = target.path == wire::DataPath::kBypass;
  if (!told_to) answer.no_bypass = own_refusal(options, is_write);
  if (answer.no_bypass.empty() && told.bypass != wire::kLeaseToBeHad) answer.no_bypass = told.bypass;
  if (told_to) {
    answer.path = answer.no_bypass.empty() ? "bypass" : "refused";
    answer.why = answer.no_bypass.empty() ? "asked for by name" : answer.no_bypass;
  } else if (answer.no_bypass.empty() && target.path == wire::DataPath::kAutomatic) {
    answer.path = "bypass";
    answer.why =
        "the client is on the server's machine and may do it itself, once the file moves enough to be worth a lease";
  }
  return answer;
}

}  // namespace

job::Task<Result<std::vector<SlotPath>>> explain(TransferTarget target, const datatype::Description& what,
                                                 bool is_write, Limits limits) {
  const auto slots = datatype::slots_touched(what, target.distribution);
  SPATE_CO_TRY(std::ignore, co_await target.session.learn_targets(target.layout, limits));
  SPATE_CO_TRY(auto shares, make_shares(target, slots));
  std::vector<SlotPath> answers;
  for (Share& share : shares) {
    for (const auto& ref : share.slots)
      share.stream_bytes.push_back(datatype::bytes_for_slot(what, target.distribution, ref.slot));
    wire::ExplainPathRequest request;
    request.where = slot_set(target, share);
    request.what = what;
    request.is_write = is_write;
    // The bypass is not a path of the server. Each answer says whether the server gives leases.
    request.path = target.path == wire::DataPath::kBypass ? wire::DataPath::kAutomatic : target.path;
    rpc::CallOptions options = limits.call_options();
    options.capability = &target.capability;
    options.reply_room = 1U << 20U;
    SPATE_CO_TRY(const auto reply, co_await share.channel->call<wire::ExplainPathReply>(request, options));
    if (reply.slots.size() != share.slots.size()) co_return Errc::kProtocol;
    for (std::size_t i = 0; i < share.slots.size(); ++i) {
      answers.push_back(answer_for(target, share, i, reply.slots[i], is_write));
    }
  }
  co_return answers;
}

}  // namespace spate::client
