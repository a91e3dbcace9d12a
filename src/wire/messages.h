// SPDX-License-Identifier: Apache-2.0
// Every operation with its request and its reply: for what must treat all of them (tests, fuzzers, documentation checks).
#pragma once

#include "wire/io_messages.h"
#include "wire/meta_messages.h"

namespace spate {

// Found where wire has no such message yet: such an operation is incomplete, and for_each_operation() leaves it out.
#define SPATE_MESSAGES_ABSENT(id, number, text) \
  struct id##Request;                           \
  struct id##Reply;
SPATE_OPERATIONS(SPATE_MESSAGES_ABSENT)
#undef SPATE_MESSAGES_ABSENT

namespace wire {

template <typename T>
concept Complete = requires { sizeof(T); };

/// Calls visit.template operator()<Request, Reply>(op) for every operation of the protocol.
template <typename Visitor>
void for_each_operation(Visitor&& visit) {
  const auto one = [&visit]<typename Request, typename Reply>(Op op) {
    if constexpr (Complete<Request> && Complete<Reply>) {
      static_assert(!std::is_same_v<Request, Reply>);
      visit.template operator()<Request, Reply>(op);
    }
  };
#define SPATE_MESSAGES_VISIT(id, number, text) one.template operator()<id##Request, id##Reply>(Op::k##id);
  SPATE_OPERATIONS(SPATE_MESSAGES_VISIT)
#undef SPATE_MESSAGES_VISIT
}

}  // namespace wire
}  // namespace spate
