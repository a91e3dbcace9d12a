// SPDX-License-Identifier: Apache-2.0
// Requests with several changes (change_batch, queued_changes): the answers, and the room that they take.
#pragma once

#include <map>

#include "server/meta/core/core.h"
#include "server/meta/core/operation.h"
#include "wire/batch_messages.h"

namespace spate::meta {

/// Answers to changes that the next run leaves out: they failed after they had put something, or their answer has no
/// room. By index.
using LeftOut = std::map<std::size_t, wire::BatchedAnswer>;

inline constexpr std::size_t kFieldsRoom = 32;  // bytes for the fixed fields of an answer or a name

inline wire::BatchedAnswer answer_of(Result<Bytes> result) {
  if (!result) return {result.code(), wire::context_of(result.error()), {}};
  return {Errc::kOk, {}, *std::move(result)};
}

/// The size of the reply.
inline std::size_t size_of(const std::vector<wire::BatchedAnswer>& answers, const wire::Touched& touched) {
  std::size_t bytes = kReplyHeaderRoom + touched.objects.size() * sizeof(std::uint64_t);
  for (const wire::TouchedName& name : touched.names) bytes += kFieldsRoom + name.name.size();
  for (const wire::BatchedAnswer& one : answers) bytes += kFieldsRoom + one.context.size() + one.body.size();
  return bytes;
}

inline job::Task<Result<void>> nothing() { co_return {}; }
/// Runs the operation again, without what it leaves out.
inline Errc run_again(Operation& operation) { return operation.deferred().run_again_after(&nothing); }

/// While it lives, one change of several is made. If the change fails, the objects that it has counted do not count.
class CountedObjects {
 public:
  explicit CountedObjects(Operation& operation) : operation_(operation), before_(operation.deferred().objects_made()) {}
  void drop() { operation_.deferred().count_object(before_ - operation_.deferred().objects_made()); }

 private:
  Operation& operation_;
  const int before_;
};

}  // namespace spate::meta
