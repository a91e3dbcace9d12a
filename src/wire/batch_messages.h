// SPDX-License-Identifier: Apache-2.0
// Several changes of one session in one request (docs/wire.md, "Batches of changes").
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/op.h"

namespace spate::wire {

/// Most changes in one batch.
inline constexpr std::size_t kMostBatched = 256;
/// Most bytes of the bodies of all changes in one batch.
inline constexpr std::size_t kMostBatchedBytes = std::size_t{256} << 10U;

/// The changes that may be part of a batch. A row is X(enumerator, name), as in the lists of wire/op.h. A client adds
/// an open only if it reads.
#define SPATE_BATCHABLE_CHANGES(X) \
  X(Setattr, setattr)              \
  X(Create, create)                \
  X(Mkdir, mkdir)                  \
  X(Symlink, symlink)              \
  X(Link, link)                    \
  X(Unlink, unlink)                \
  X(Rmdir, rmdir)                  \
  X(Open, open)                    \
  X(Close, close)

/// Whether the list has the operation.
constexpr bool batchable(Op op) {
  switch (op) {
#define SPATE_BATCHABLE(id, name) case Op::k##id:
    SPATE_BATCHABLE_CHANGES(SPATE_BATCHABLE)
#undef SPATE_BATCHABLE
    return true;
    default: return false;
  }
}

/// One change, as it would be sent by itself: the body of a request of `op`, which is batchable.
struct BatchedChange {
  Op op = Op::kSetattr;
  Bytes body;
  template <typename A>
  void fields(A& a) {
    a(op, body);
  }
};

/// Makes the changes one after another in one transaction. A change that fails has no effect; the others are made all
/// the same. A change that is not batchable, and a create or open that truncates an existing file, gets the answer
/// kNotSupported. A change whose answer has no room in the reply gets kMessageTooBig. Neither is made, and the client
/// may send it by itself. Nobody sees a part of a batch.
struct ChangeBatchRequest {
  static constexpr Op kOp = Op::kChangeBatch;
  static constexpr std::string_view kName = "change batch request";
  std::vector<BatchedChange> changes;
  template <typename A>
  void fields(A& a) {
    a(changes);
  }
};

/// The reply that one change would get by itself.
struct BatchedAnswer {
  Errc status = Errc::kUnknown;
  std::string context;  // of an error
  Bytes body;           // of a success
  template <typename A>
  void fields(A& a) {
    a(status, context, body);
  }
};

struct ChangeBatchReply {
  static constexpr std::string_view kName = "change batch reply";
  std::vector<BatchedAnswer> answers;  // in the order of the changes
  template <typename A>
  void fields(A& a) {
    a(answers);
  }
};

}  // namespace spate::wire
