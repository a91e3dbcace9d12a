// SPDX-License-Identifier: Apache-2.0
#include "client/session/change_batcher.h"

#include <algorithm>
#include <utility>

#include "job/deadline.h"
#include "wire/meta_messages.h"

namespace spate::client {
namespace {

/// While this many changes and batches are in flight, other changes wait for them. Two keep a server busy: it runs one
/// while the answer to the other travels.
constexpr unsigned kUnderWay = 2;
/// Limits of one batch, in changes and bytes. The server runs nothing else between the changes of a batch, and the
/// answer is about as large as the batch.
constexpr std::size_t kMostTogether = 32;
constexpr std::size_t kMostBytes = std::size_t{16} << 10U;
constexpr std::size_t kLargestChange = 4096;
/// Room for the answers, with the objects that they touch and grant.
constexpr std::uint32_t kReplyRoom = 64U << 10U;
/// If no answer comes for this long, the changes in flight wait for another client, and the waiting changes go without
/// them.
constexpr Duration kTimeout = std::chrono::milliseconds(5);
/// The deadlines in one batch differ by at most this much. The batch has the latest of them.
constexpr Duration kDeadlines = std::chrono::seconds(1);

/// Whether the error means that the server has done nothing of the batch and may accept each of its changes alone.
/// Errors that may come after the commit are not among these: sent again with another id, a change would be made twice.
bool refuses_batch(Errc code) {
  return code == Errc::kNotSupported || code == Errc::kInvalidArgument || code == Errc::kBusy;
}

/// Whether the server has not made this change of a batch, and may accept it alone.
bool refuses_in_batch(Errc code) { return code == Errc::kNotSupported || code == Errc::kMessageTooBig; }

/// Whether the open is not for writing. An open for writing waits for the disk of the server.
bool only_reads(ByteView body) {
  const auto request = wire::decode_body<wire::OpenRequest>(body);
  constexpr std::uint8_t kOfUncounted = wire::kOpenUncounted | wire::kOpenNotesRead;
  return request && (request->open_flags & ~kOfUncounted) == wire::kOpenRead && !request->renew;
}

/// The reply of one change of a batch.
ChangeReply part_of(const ChangeReply& batch, const Bytes& body) {
  ChangeReply part;
  part.raw.features = batch.raw.features;
  part.raw.message = Buffer::copy_of(body);
  part.raw.body = part.raw.message.view();
  part.lists = batch.lists;
  return part;
}

}  // namespace

struct ChangeBatcher::Change {
  Change(job::Executor& executor, wire::Op its_op, ByteView its_body, const Limits& its_limits)
      : op(its_op), body(to_bytes(its_body)), limits(its_limits), done(executor) {}
  const wire::Op op;
  const Bytes body;
  const Limits limits;
  std::optional<Result<ChangeReply>> reply;  // set when done; empty: the change must be sent alone
  bool waiting = true;                       // not sent yet
  job::Event done;
};

bool ChangeBatcher::takes(wire::Op op, ByteView body, const Limits& limits) {
  if (!wire::batchable(op) || body.size() > kLargestChange || limits.data_of) return false;
  return op != wire::Op::kOpen || only_reads(body);
}

job::Task<Result<ChangeReply>> ChangeBatcher::send(wire::Op op, ByteView body, Limits limits) {
  if (under_way_ >= kUnderWay) {
    const auto change = std::make_shared<Change>(executor_, op, body, limits);
    waiting_.push_back(change);
    co_await wait_for_turn(*change);
    const bool was_waiting = std::exchange(change->waiting, false);
    if (was_waiting) std::erase(waiting_, change);
    if (was_waiting && limits.stop.stopped()) co_return limits.stop.reason();
    if (!was_waiting) {  // in flight or answered; after the deadline the error says why
      SPATE_CO_TRY(std::ignore, co_await change->done.wait(limits.stop));
      if (change->reply) co_return std::move(*change->reply);
    }
  }
  auto reply = co_await send_now(op, body, limits);
  co_return reply;
}

/// Waits until the change is sent, its deadline has come, or its caller gives up. If no answer comes for long, this
/// starts further batches.
job::Task<void> ChangeBatcher::wait_for_turn(Change& change) {
  const Limits& limits = change.limits;
  while (change.waiting && !limits.stop.stopped() && executor_.now() < limits.deadline) {
    const std::uint64_t answers = answers_;
    {
      job::DeadlineScope scope(executor_, std::min(limits.deadline, executor_.now() + kTimeout), limits.stop);
      std::ignore = co_await change.done.wait(scope.token());
    }
    const bool stuck = answers == answers_ && !limits.stop.stopped();
    while (stuck && change.waiting && !waiting_.empty()) start_batch();
  }
}

job::Task<Result<ChangeReply>> ChangeBatcher::send_now(wire::Op op, ByteView body, Limits limits) {
  ++under_way_;
  auto reply = co_await send_one_(op, body, limits, rpc::CallOptions().reply_room);
  answered();
  co_return read_change_reply(std::move(reply));
}

void ChangeBatcher::answered() {
  ++answers_;
  --under_way_;
  if (under_way_ < kUnderWay && !waiting_.empty()) start_batch();
}

void ChangeBatcher::start_batch() {
  Changes changes = take_some();
  ++under_way_;
  if (!job::spawn(gate_, send_together(changes))) {
    --under_way_;
    answer(changes, Errc::kCancelled);
  }
}

/// Takes waiting changes whose deadlines are close to each other, and that are for one epoch of the session or for any.
ChangeBatcher::Changes ChangeBatcher::take_some() {
  Changes out;
  std::size_t bytes = 0;
  std::optional<rpc::SessionEpoch> only_in;
  while (!waiting_.empty() && out.size() < kMostTogether) {
    const std::shared_ptr<Change>& next = waiting_.front();
    const bool other = only_in && next->limits.only_in && *only_in != *next->limits.only_in;
    const MonoTime first = out.empty() ? next->limits.deadline : out.front()->limits.deadline;
    const bool alike = std::max(first, next->limits.deadline) - std::min(first, next->limits.deadline) < kDeadlines;
    if (other || !alike || (bytes += next->body.size()) > kMostBytes) break;
    if (next->limits.only_in) only_in = next->limits.only_in;
    next->waiting = false;
    out.push_back(next);
    waiting_.pop_front();
  }
  return out;
}

job::Task<void> ChangeBatcher::send_together(Changes changes) {
  Limits limits = changes.front()->limits;
  limits.stop = stop_;  // a caller may give up, and its token may end, while its change is in flight
  wire::ChangeBatchRequest request;
  for (const auto& change : changes) {
    limits.deadline = std::max(limits.deadline, change->limits.deadline);
    if (change->limits.only_in) limits.only_in = change->limits.only_in;
    request.changes.push_back({change->op, change->body});
  }
  if (changes.size() == 1) {
    const Change& one = *changes.front();
    auto reply = co_await send_one_(one.op, one.body, limits, rpc::CallOptions().reply_room);
    changes.front()->reply = read_change_reply(std::move(reply));
    changes.front()->done.set();
  } else {
    ++counters_.batches;
    counters_.batched += changes.size();
    Bytes body;
    wire::encode_body(request, body);
    auto reply = co_await send_one_(wire::Op::kChangeBatch, body, limits, kReplyRoom);
    answer(changes, std::move(reply));
  }
  answered();
}

/// Gives each change its part of the common reply.
void ChangeBatcher::answer(const Changes& changes, Result<rpc::RawReply> raw) {
  wire::ChangeBatchReply answers;
  Result<ChangeReply> reply = read_change_reply(std::move(raw));
  if (reply) {
    auto decoded = wire::decode_body<wire::ChangeBatchReply>(reply->raw.body);
    if (decoded && decoded->answers.size() == changes.size()) {
      answers = *std::move(decoded);
    } else {
      reply = Error(Errc::kProtocol, "the reply to several changes cannot be read");
    }
  }
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Change& change = *changes[i];
    if (reply) {
      wire::BatchedAnswer& its = answers.answers[i];
      if (its.status == Errc::kOk) {
        change.reply = part_of(*reply, its.body);
      } else if (!refuses_in_batch(its.status)) {
        change.reply = wire::error_of(its.status, std::move(its.context));
      }
    } else {
      // The session of some changes has ended. The others may continue in the next one.
      const bool other_session = session_ended(reply.code()) && !change.limits.only_in;
      if (!other_session && !refuses_batch(reply.code())) change.reply = reply.error();
    }
    change.done.set();
  }
}

}  // namespace spate::client
