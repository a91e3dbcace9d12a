// SPDX-License-Identifier: Apache-2.0
// Internal to the data path: a transfer under way, and what reads, writes and other requests to datafiles share.
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
  std::uint64_t bytes = 0;       // of the stream: read or written
  std::vector<SlotState> slots;  // those that were asked, in no order
};

/// One transfer under way: what its shares have in common. Lives on the frame of read() or write().
struct Transfer {
  TransferTarget& target;
  const datatype::Description& what;
  const datatype::MemoryMap& memory;
  Limits limits;
  std::vector<SlotState> states;
  std::vector<std::uint64_t> sent;  // [slot_count] of each slot's stream what came; reads only
};

/// The shares of all servers that the transfer touches.
Result<std::vector<Share>> shares_of(const Transfer& transfer);

/// Runs the tasks, one a share, and waits for all of them. No tasks: nothing was moved.
job::Task<Result<TransferResult>> run_transfer(Transfer& transfer, std::vector<job::Task<Result<void>>> tasks);

/// Of a request for this share whose reply carries no data.
rpc::CallOptions call_options(const Transfer& transfer, const Share& share);

/// Notes what a server has told of its slots.
Result<void> note_states(Transfer& transfer, const Share& share, std::span<const wire::DatafileState> states,
                         Incarnation incarnation);

/// What is wrong with a server's storage is told with its name: somebody has to go there.
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

/// Whether a share's data travel in the request or reply itself. Not where a path is named: that one is to be taken.
bool in_message(const Transfer& transfer, const Share& share, std::uint32_t most_bytes);

/// Whether the connection broke, or could not be made.
bool is_lost(Errc code);

/// Whether move_by_client() is worth the call: most transfers are not by this client itself.
bool may_bypass(const Transfer& transfer, const Share& share, bool is_write);
/// Moves the share's data without the server, under leases. False: this client has none, or not any more, and has told
/// nobody anything.
job::Task<Result<bool>> move_by_client(Transfer& transfer, const Share& share, bool is_write);

}  // namespace spate::client
