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

/// A batch has at most so many changes.
inline constexpr std::size_t kMostBatched = 256;
/// The bodies of all changes of a batch together, bytes, at most.
inline constexpr std::size_t kMostBatchedBytes = std::size_t{256} << 10U;

/// One change, as it would be sent by itself: the body of a request of `op`.
struct BatchedChange {
  Op op = Op::kSetattr;
  Bytes body;
  template <typename A>
  void fields(A& a) {
    a(op, body);
  }
};

/// Makes the changes one after another in one transaction. A change that fails has no effect, and the others are made
/// all the same. `op` may be setattr, create, mkdir, symlink, link, unlink, rmdir and close; kNotSupported is the
/// answer to others, and to a create that truncates a file that was there; kMessageTooBig that to changes whose answers
/// have no room in the reply. These two are not made, and may be sent by themselves. Nobody sees a part of a batch.
struct ChangeBatchRequest {
  static constexpr Op kOp = Op::kChangeBatch;
  static constexpr std::string_view kName = "change batch request";
  std::vector<BatchedChange> changes;
  template <typename A>
  void fields(A& a) {
    a(changes);
  }
};

/// What the reply to one change would be by itself.
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
