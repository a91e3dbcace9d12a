// SPDX-License-Identifier: Apache-2.0
// change_batch: several changes of one session in one transaction. Each is made by its operation's own function.
#include <any>

#include "server/meta/names/batched.h"
#include "server/meta/names/operations.h"

namespace spate::meta {
namespace {

/// Null: this operation cannot be part of a batch.
Body body_of(wire::Op op) {
  switch (op) {
#define SPATE_BODY(id, name) \
  case wire::Op::k##id: return &encoded_body<wire::id##Request, &name>;
    SPATE_BATCHABLE_CHANGES(SPATE_BODY)
#undef SPATE_BODY
    default: return nullptr;
  }
}

Result<void> check_form(const wire::ChangeBatchRequest& request) {
  std::size_t bytes = 0;
  for (const wire::BatchedChange& change : request.changes) bytes += change.body.size();
  if (request.changes.empty() || request.changes.size() > wire::kMostBatched || bytes > wire::kMostBatchedBytes)
    return Error::told(Errc::kInvalidArgument, "a batch has 1 to 256 changes and at most 256 KiB");
  return {};
}

job::Task<Result<Bytes>> make(Operation& operation, const wire::BatchedChange& change) {
  const Body body = body_of(change.op);
  if (body == nullptr) co_return Error(Errc::kNotSupported, "this kind of change cannot be part of a batch");
  auto result = co_await body(operation, change.body);
  // A change that must wait for io servers needs a request of its own. Otherwise the others would wait, too.
  if (!result && operation.deferred().take_wait())
    co_return Error(Errc::kNotSupported, "a change that must wait for io servers cannot be part of a batch");
  // The answer to a batch cannot wait for truncations.
  if (result && operation.deferred().truncates())
    co_return Error(Errc::kNotSupported, "a truncation cannot be part of a batch");
  co_return result;
}

wire::BatchedAnswer no_room() { return {Errc::kMessageTooBig, "the reply to the batch has no room for it", {}}; }

}  // namespace

Outcome<wire::ChangeBatchReply> change_batch(Operation& operation, const wire::ChangeBatchRequest& request) {
  SPATE_CO_TRY(std::ignore, check_form(request));
  if (!operation.kept().has_value()) operation.kept() = LeftOut();
  auto& failed = std::any_cast<LeftOut&>(operation.kept());
  wire::ChangeBatchReply reply;
  for (std::size_t i = 0; i < request.changes.size(); ++i) {
    const auto before = failed.find(i);
    if (before != failed.end()) {
      reply.answers.push_back(before->second);
      continue;
    }
    const std::uint64_t keys = operation.changes().keys();
    CountedObjects counted(operation);
    auto result = co_await make(operation, request.changes[i]);
    if (result.code() == Errc::kConflict) co_return std::move(result).error();
    const bool has_put = operation.changes().keys() != keys;
    const bool undo = !result && has_put;
    if (!result) counted.drop();
    if (auto told = operation.deferred().take_answer()) result = *std::move(told);
    reply.answers.push_back(answer_of(std::move(result)));
    // If the client had too little room, it would lose the answers to committed changes.
    const bool fits = size_of(reply.answers, operation.changes().touched()) <= operation.call().header.reply_room;
    if (fits && !undo) continue;
    if (fits) failed[i] = reply.answers.back();
    // A later change with a smaller answer might still fit, but each attempt would run all of them again.
    for (std::size_t left = i; !fits && left < request.changes.size(); ++left) failed[left] = no_room();
    co_return run_again(operation);
  }
  co_return reply;
}

}  // namespace spate::meta
