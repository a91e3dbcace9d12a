// SPDX-License-Identifier: Apache-2.0
// The core's posts. See bmi/core.h.
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "bmi/core.h"

namespace spate::bmi {

Result<Posted> Core::post_send(const Message& message, ContextId context, void* user) {
  return post(OpKind::kSend, message, context, user);
}

Result<Posted> Core::post_recv(const Message& message, ContextId context, void* user) {
  return post(OpKind::kReceive, message, context, user);
}

Result<Posted> Core::post_send_unexpected(const Message& message, ContextId context, void* user) {
  return post(OpKind::kSendUnexpected, message, context, user);
}

Result<std::uint64_t> Core::check(OpKind kind, const Message& message) const {
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

Result<PostResult> Core::hand_over(OpKind kind, const Prepared& prepared) {
  switch (kind) {
    case OpKind::kSend: return prepared.module->post_send(prepared.post);
    case OpKind::kReceive: return prepared.module->post_recv(prepared.post);
    case OpKind::kSendUnexpected: return prepared.module->post_send_unexpected(prepared.post);
  }
  return Errc::kInvalidArgument;
}

Result<Posted> Core::post(OpKind kind, const Message& message, ContextId context, void* user) {
  Prepared prepared;
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

/// Small messages leave without an operation where the module can do that: half of what a post costs is to make and to
/// end one.
bool Core::send_at_once(OpKind kind, Address peer, ContextId context, Prepared& prepared) {
  {
    const std::lock_guard lock(mutex_);
    AddressEntry* entry = find_entry(peer);
    if (entry == nullptr || !on_current_url(*entry, peer)) return false;
    const Route& route = entry->routes[entry->current];
    if (!route.sends_at_once) return false;
    SPATE_CHECK(contexts_.find(context) != nullptr);
    if (!entry->context) entry->context = context;
    prepared.module = route.module;
    prepared.post.op = ops_.id_alone();
    prepared.post.peer = route.peer;
  }
  return prepared.module->send_at_once(prepared.post, kind == OpKind::kSendUnexpected);
}

Result<void> Core::prepare(OpKind kind, Address peer, ContextId context, Prepared& prepared, void* user) {
  const std::lock_guard lock(mutex_);
  AddressEntry* entry = find_entry(peer);
  if (entry == nullptr || !on_current_url(*entry, peer)) return Error(Errc::kConnectionLost, "the peer is gone");
  SPATE_CHECK(contexts_.find(context) != nullptr);
  Op* op = ops_.allocate();
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

void Core::save(SavedPost& saved, const Post& post) {
  saved.tag = post.tag;
  saved.message_class = post.message_class;
  saved.receiver_ready = post.receiver_ready;
  saved.segments.assign(post.segments.begin(), post.segments.end());
  saved.size = post.size;
}

Posted Core::finish_at_once(OpId id, std::uint64_t actual_size) {
  const std::lock_guard lock(mutex_);
  Op* op = ops_.find(id);
  SPATE_CHECK(op != nullptr && !op->done);
  const Posted posted{id, true, Completion{id, op->user, Errc::kOk, actual_size}};
  ops_.release(*op);
  return posted;
}

void Core::release(OpId id) {
  const std::lock_guard lock(mutex_);
  Op* op = ops_.find(id);
  SPATE_CHECK(op != nullptr && !op->done);
  ops_.release(*op);
}

}  // namespace spate::bmi
