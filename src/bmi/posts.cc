// SPDX-License-Identifier: Apache-2.0
// See bmi/posts.h.
#include "bmi/posts.h"

#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace spate::bmi {
namespace {

Result<PostResult> hand_over(OpKind kind, const PreparedPost& prepared) {
  switch (kind) {
    case OpKind::kSend: return prepared.module->post_send(prepared.post);
    case OpKind::kReceive: return prepared.module->post_recv(prepared.post);
    case OpKind::kSendUnexpected: return prepared.module->post_send_unexpected(prepared.post);
  }
  return Errc::kInvalidArgument;
}

void save(SavedPost& saved, const Post& post) {
  saved.tag = post.tag;
  saved.message_class = post.message_class;
  saved.receiver_ready = post.receiver_ready;
  saved.segments.assign(post.segments.begin(), post.segments.end());
  saved.size = post.size;
}

}  // namespace

Result<std::uint64_t> Posts::check(OpKind kind, const Message& message) const {
  std::uint64_t size = 0;
  for (const Segment& segment : message.segments) {
    const bool file = segment.memory == nullptr && segment.fd >= 0;
    if (segment.size > 0 && segment.memory == nullptr && (!file || kind == OpKind::kReceive)) {
      return Error(Errc::kInvalidArgument, "a segment is neither memory nor, in a send, a file");
    }
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (segment.size > kMax - size || (file && segment.offset > kMax - segment.size)) {
      return Error(Errc::kInvalidArgument, "segments add up to more than 2^63 bytes");
    }
    size += segment.size;
  }
  if (kind == OpKind::kSendUnexpected && size > options_.max_unexpected_bytes) return Errc::kMessageTooBig;
  return size;
}

Result<Posted> Posts::post(OpKind kind, const Message& message, ContextId context, void* user) {
  PreparedPost prepared;
  SPATE_TRY(prepared.post.size, check(kind, message));
  prepared.post.tag = message.tag;
  prepared.post.message_class = kind == OpKind::kSendUnexpected ? MessageClass::kControl : message.message_class;
  prepared.post.receiver_ready = message.receiver_ready;
  prepared.post.segments = message.segments;
  prepared.post.connection = mark_of(message.peer);
  if (kind != OpKind::kReceive && prepared.post.size <= options_.eager_limit_bytes &&
      send_at_once(kind, message.peer, context, prepared)) {
    const OpId id = prepared.post.op;
    return Posted{id, true, Completion{id, user, Errc::kOk, prepared.post.size}};
  }
  SPATE_TRY(std::ignore, prepare(kind, message.peer, context, prepared, user));
  const OpId id = prepared.post.op;
  const Result<PostResult> result = hand_over(kind, prepared);
  if (result && !result->done) return Posted{id, false, {}};
  if (result) return finish_at_once(id, result->actual_size);
  release(id);
  return result.error();
}

/// A small message leaves without an operation if the module can do that. To make and to end an operation is half of
/// what a post costs.
bool Posts::send_at_once(OpKind kind, Address peer, ContextId context, PreparedPost& prepared) {
  {
    const std::lock_guard lock(tables_.mutex);
    AddressEntry* entry = tables_.addresses.find(Network::unbound(peer));
    if (entry == nullptr || !on_current_url(*entry, peer)) return false;
    const Route& route = entry->routes[entry->current];
    if (!route.sends_at_once) return false;
    SPATE_CHECK(tables_.contexts.find(context) != nullptr);
    if (!entry->context) entry->context = context;
    prepared.module = route.module;
    prepared.post.op = tables_.ops.id_alone();
    prepared.post.peer = route.peer;
  }
  return prepared.module->send_at_once(prepared.post, kind == OpKind::kSendUnexpected);
}

Result<void> Posts::prepare(OpKind kind, Address peer, ContextId context, PreparedPost& prepared, void* user) {
  const std::lock_guard lock(tables_.mutex);
  AddressEntry* entry = tables_.addresses.find(Network::unbound(peer));
  if (entry == nullptr || !on_current_url(*entry, peer)) return Error(Errc::kConnectionLost, "the peer is gone");
  SPATE_CHECK(tables_.contexts.find(context) != nullptr);
  Op* op = tables_.ops.allocate();
  if (op == nullptr) return Error(Errc::kNoMemory, "too many network operations in flight");
  if (!entry->context) entry->context = context;
  op->context = context;
  op->user = user;
  op->peer = peer;
  op->kind = kind;
  op->url = entry->current;
  const Route& route = entry->routes[op->url];
  prepared.module = route.module;
  prepared.post.op = op->id;
  prepared.post.peer = route.peer;
  if (entry->routes.size() > 1) save(op->saved, prepared.post);
  return {};
}

Posted Posts::finish_at_once(OpId id, std::uint64_t actual_size) {
  const std::lock_guard lock(tables_.mutex);
  Op* op = tables_.ops.find(id);
  SPATE_CHECK(op != nullptr && !op->done);
  const Posted posted{id, true, Completion{id, op->user, Errc::kOk, actual_size}};
  tables_.ops.release(*op);
  return posted;
}

void Posts::release(OpId id) {
  const std::lock_guard lock(tables_.mutex);
  Op* op = tables_.ops.find(id);
  SPATE_CHECK(op != nullptr && !op->done);
  tables_.ops.release(*op);
}

void Posts::cancel(OpId id) {
  Route route;
  {
    const std::lock_guard lock(tables_.mutex);
    Op* op = tables_.ops.find(id);
    if (op == nullptr || op->done) return;
    op->cancel_requested = true;  // the core looks at it when the operation moves to the next URL
    const AddressEntry* entry = tables_.addresses.find(Network::unbound(op->peer));
    if (entry == nullptr) return;
    route = entry->routes[op->url];
  }
  route.module->cancel(route.peer, id);
}

void Posts::completed(std::span<const Outcome> outcomes) {
  std::vector<OpId> again;  // empty, and unallocated, unless a connection attempt failed
  {
    const std::lock_guard lock(tables_.mutex);
    for (const Outcome& outcome : outcomes) {
      Op* op = tables_.ops.find(outcome.op);
      SPATE_CHECK(op != nullptr && !op->done);
      if (outcome.status == Errc::kUnreachable && has_next_url(*op)) {
        again.push_back(outcome.op);
      } else {
        finish(*op, outcome.status, outcome.actual_size);
      }
    }
  }
  for (const OpId id : again) post_on_next_url(id);
}

void Posts::finish(Op& op, Errc status, std::uint64_t actual_size) {
  op.done = true;
  op.status = status;
  op.actual_size = status == Errc::kOk ? actual_size : 0;
  Context* context = tables_.contexts.find(op.context);
  SPATE_CHECK(context != nullptr);  // closing a context with operations in flight is the caller's bug
  context->completions().push(op);
  context->signal();
}

bool Posts::has_next_url(const Op& op) {
  if (mark_of(op.peer) != 0) return false;
  const AddressEntry* entry = tables_.addresses.find(Network::unbound(op.peer));
  return entry != nullptr && op.attempts + 1 < entry->routes.size();
}

std::optional<PreparedPost> Posts::prepare_next_url(OpId id) {
  const std::lock_guard lock(tables_.mutex);
  Op* op = tables_.ops.find(id);
  AddressEntry* entry = tables_.addresses.find(Network::unbound(op->peer));
  if (op->cancel_requested || entry == nullptr || op->attempts + 1 >= entry->routes.size()) {
    finish(*op, op->cancel_requested ? Errc::kCancelled : Errc::kUnreachable, 0);
    return std::nullopt;
  }
  ++op->attempts;
  // The first operation that failed moves the address on; the others follow it.
  if (entry->current == op->url) entry->current = (op->url + 1) % static_cast<std::uint32_t>(entry->routes.size());
  op->url = entry->current;
  const Route& route = entry->routes[op->url];
  const SavedPost& saved = op->saved;
  return PreparedPost{route.module, Post{id, route.peer, saved.tag, saved.message_class, saved.receiver_ready,
                                         saved.segments, saved.size, 0}};
}

void Posts::post_on_next_url(OpId id) {
  OpKind kind{};
  {
    const std::lock_guard lock(tables_.mutex);
    kind = tables_.ops.find(id)->kind;
  }
  while (const std::optional<PreparedPost> prepared = prepare_next_url(id)) {
    const Result<PostResult> result = hand_over(kind, *prepared);
    const std::lock_guard lock(tables_.mutex);
    Op* op = tables_.ops.find(id);
    if (result && result->done) finish(*op, Errc::kOk, result->actual_size);
    if (!result && result.code() == Errc::kUnreachable) continue;
    if (!result) finish(*op, result.code(), 0);
    break;
  }
  // The cancel came while no module had the operation, so it is passed on now.
  Route route;
  {
    const std::lock_guard lock(tables_.mutex);
    const Op* op = tables_.ops.find(id);
    if (op == nullptr || op->done || !op->cancel_requested) return;
    const AddressEntry* entry = tables_.addresses.find(Network::unbound(op->peer));
    if (entry == nullptr) return;
    route = entry->routes[op->url];
  }
  route.module->cancel(route.peer, id);
}

}  // namespace spate::bmi
