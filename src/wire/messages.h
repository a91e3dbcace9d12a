// SPDX-License-Identifier: Apache-2.0
// The reply of each request, and a visit of all operations for code that must treat all of them (tests, fuzzers, checks
// of the docs).
#pragma once

#include <type_traits>

#include "wire/batch_messages.h"
#include "wire/bypass_messages.h"
#include "wire/check_messages.h"
#include "wire/cluster_messages.h"
#include "wire/copy_messages.h"
#include "wire/event_messages.h"
#include "wire/group_messages.h"
#include "wire/io_messages.h"
#include "wire/key_messages.h"
#include "wire/lease_messages.h"
#include "wire/lock_messages.h"
#include "wire/membership_messages.h"
#include "wire/meta_messages.h"
#include "wire/mirror_forward_messages.h"
#include "wire/mirror_messages.h"
#include "wire/queue_messages.h"
#include "wire/xattr_messages.h"

namespace spate::wire {

template <typename Request>
struct ReplyTo;
#define SPATE_MESSAGES_REPLY(id, ...) \
  template <>                         \
  struct ReplyTo<id##Request> {       \
    using Type = id##Reply;           \
  };
SPATE_OPERATIONS(SPATE_MESSAGES_REPLY)
#undef SPATE_MESSAGES_REPLY

/// The message that answers a `Request`.
template <typename Request>
using ReplyOf = typename ReplyTo<Request>::Type;

/// Calls visit.template operator()<Request, Reply>(op) for every operation of the protocol. One without messages does
/// not compile.
template <typename Visitor>
void for_each_operation(Visitor&& visit) {
#define SPATE_MESSAGES_VISIT(id, ...)                     \
  static_assert(id##Request::kOp == Op::k##id);           \
  static_assert(!std::is_same_v<id##Request, id##Reply>); \
  visit.template operator()<id##Request, id##Reply>(Op::k##id);
  SPATE_OPERATIONS(SPATE_MESSAGES_VISIT)
#undef SPATE_MESSAGES_VISIT
}

}  // namespace spate::wire
