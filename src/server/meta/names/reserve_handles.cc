// SPDX-License-Identifier: Apache-2.0
// reserve_handles: sets handles aside for objects that a session will make by queued changes.
#include <any>

#include "server/meta/core/core.h"
#include "server/meta/names/operations.h"
#include "server/meta/names/queue_sessions.h"

namespace spate::meta {
namespace {

Result<void> check_form(const MetaOptions& options, const wire::ReserveHandlesRequest& request) {
  if (request.count == 0 || request.count > wire::kMostReserved)
    return Error::told(Errc::kInvalidArgument, "reserve_handles: 1 to 4096 handles at once");
  if (request.directory.value >> 48U != options.shard)
    return Error::told(Errc::kInvalidArgument, "reserve_handles: the directory is of another metadata shard");
  return {};
}

}  // namespace

Outcome<wire::ReserveHandlesReply> reserve_handles(Operation& operation, const wire::ReserveHandlesRequest& request) {
  MetaCore& core = operation.core();
  SPATE_CO_TRY(std::ignore, check_may_queue(operation));
  SPATE_CO_TRY(std::ignore, check_form(core.options(), request));
  const wire::RequestHeader& header = operation.call().header;
  const StoreKey key = queue_key(header.client);
  SPATE_CO_TRY(const auto found, co_await operation.get<QueueRecord>(key));
  QueueRecord record = found.value_or(QueueRecord());
  if (record.epoch != header.session_epoch) record.ranges.clear();  // nobody knows what the epoch before had left
  record.epoch = header.session_epoch;
  if (record.ranges.size() == wire::kMostRanges) {
    // The client may not have had the answer. Nothing has used the later range, or the earlier one would be gone.
    const NumberRange& later = record.ranges.back();
    const Handle first(std::uint64_t{core.options().shard} << 48U | later.begin);
    co_return wire::ReserveHandlesReply{first, static_cast<std::uint32_t>(later.end - later.begin), record.last + 1};
  }
  std::any& kept = operation.kept();  // the handles, for the next run
  if (!kept.has_value()) {
    SPATE_CO_TRY(kept, co_await core.new_handle(operation.call().stop, request.count));
  }
  const Handle first = std::any_cast<Handle>(kept);
  record.ranges.push_back({number_of(first), number_of(first) + request.count});
  operation.put(key, record);
  // A client may give the handles to objects as soon as it has the reply. They must stay reserved for it.
  operation.deferred().finish_with([&core] { return core.sync(); });
  co_return wire::ReserveHandlesReply{first, request.count, record.last + 1};
}

}  // namespace spate::meta
