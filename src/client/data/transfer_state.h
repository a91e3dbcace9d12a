// SPDX-License-Identifier: Apache-2.0
// Internal to the data path: a running transfer, and functions for reads, writes and other requests to datafiles.
#pragma once

#include <vector>

#include "client/data/share.h"
#include "client/data/slot_state.h"
#include "client/session/limits.h"
#include "datatype/description.h"
#include "datatype/memory_map.h"
#include "job/task.h"

namespace spate::client {

struct TransferResult {
  std::uint64_t bytes = 0;       // bytes of the stream that were read or written
  std::vector<SlotState> slots;  // the slots that were asked, in any order
};

/// The common state of the shares of one running transfer. It lives in the frame of read() or write().
struct Transfer {
  TransferTarget& target;
  const datatype::Description& what;
  const datatype::MemoryMap& memory;
  Limits limits;
  std::vector<SlotState> states;
  std::vector<std::uint64_t> sent;  // reads: [slot_count] how many bytes of each slot's stream came
};

/// The shares of all servers that the transfer touches.
Result<std::vector<Share>> shares_of(const Transfer& transfer);

/// Runs the tasks, one for each share, and waits for all of them. Without tasks it reports that nothing was moved.
job::Task<Result<TransferResult>> run_transfer(Transfer& transfer, std::vector<job::Task<Result<void>>> tasks);

/// The options for a request of this share whose reply carries no data.
rpc::CallOptions call_options(const Transfer& transfer, const Share& share);

/// Notes the states that a server has reported for its slots.
Result<void> note_states(Transfer& transfer, const Share& share, std::span<const wire::DatafileState> states,
                         Incarnation incarnation);

/// Adds the server's name to an error of its storage, because an administrator has to look at that server.
Error refused_by(const Share& share, Error error);

/// A reply without bulk data.
template <typename Reply>
struct Answer {
  Reply reply;
  Incarnation incarnation;  // of the server that sent it
};
template <typename Reply>
job::Task<Result<Answer<Reply>>> call_share(const Share& share, wire::Op op, ByteView body, rpc::CallOptions options) {
  auto raw = co_await share.channel->call(op, body, options);
  if (!raw) co_return refused_by(share, std::move(raw).error());
  auto reply = wire::decode_body<Reply>(raw->body);
  if (!reply) co_return std::move(reply).error().within(share.channel->name());
  Answer<Reply> answer{*std::move(reply), raw->header.incarnation};
  co_return answer;
}

/// Whether the share's data travels in the request or reply itself. False if the caller demands a data path.
bool in_message(const Transfer& transfer, const Share& share, std::uint32_t most_bytes);

/// Whether the connection broke, or could not be made.
bool is_lost(Errc code);

/// Whether to call move_by_client(), which most transfers do not need.
bool may_bypass(const Transfer& transfer, const Share& share, bool is_write);
/// Moves the share's data under leases, without the server. False: this client has no leases for it, or lost them, and
/// the servers were told nothing.
job::Task<Result<bool>> move_by_client(Transfer& transfer, const Share& share, bool is_write);

}  // namespace spate::client
