// SPDX-License-Identifier: Apache-2.0
#include "server/io/mirror/member_changes.h"

#include <algorithm>

#include "job/deadline.h"
#include "job/run_all.h"
#include "server/io/full_target.h"
#include "server/io/store.h"
#include "server/io/sync.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

using wire::MirrorChange;

constexpr std::size_t kPageOfCopies = 256;

/// One change under way. Lives on its frame.
struct MemberWork {
  Parts& parts;
  MirrorGroup& group;
  const wire::MirrorForwardRequest& request;
  ByteView data;
  DatafileKey key;
  DatafileTable::Use datafile;
  std::vector<Extent> extents;
};

bool changes_extents(MirrorChange change) {
  return change == MirrorChange::kWrite || change == MirrorChange::kPunch || change == MirrorChange::kAllocate;
}

job::Task<Result<void>> run_on_member(const MemberWork& work, trove::BytestreamRequest request) {
  request.id = work.key.id;
  request.now = work.request.time;
  const flow::Asker asker(ClientId(), wire::Priority::kControl);
  SPATE_CO_TRY(std::ignore, co_await run_op(work.group.target, asker, request, {}));
  co_return Result<void>();
}

job::Task<Result<void>> change_member_extents(MemberWork& work) {
  SPATE_CO_TRY(const DatafileLock::Hold hold, co_await work.datafile->lock.shared({}));
  const MutableByteView memory(const_cast<std::byte*>(work.data.data()), work.data.size());
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kWrite;
  if (work.request.change == MirrorChange::kPunch) request.op = trove::BytestreamOp::kPunch;
  if (work.request.change == MirrorChange::kAllocate) request.op = trove::BytestreamOp::kAllocate;
  request.extents = work.extents;
  request.extend = work.request.extend;
  if (request.op == trove::BytestreamOp::kWrite) request.memory = {&memory, 1};
  auto done = co_await run_on_member(work, request);
  co_return done;
}

job::Task<Result<void>> truncate_member(MemberWork& work) {
  SPATE_CO_TRY(const DatafileLock::Hold hold, co_await work.datafile->lock.exclusive({}));
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kTruncate;
  request.size = work.request.size;
  SPATE_CO_TRY(std::ignore, co_await run_on_member(work, request));
  if (work.request.truncate_generation == 0) co_return Result<void>();
  auto stored = co_await store_truncate(work.parts, work.key, work.request.truncate_generation);
  co_return stored;
}

job::Task<Result<void>> remove_member(MemberWork& work) {
  if (work.request.time.ns > 0) {
    SPATE_CO_TRY(std::ignore, co_await store_tombstones(work.parts, {&work.key, 1}, work.request.time));
    work.datafile->tombstone = std::max(work.datafile->tombstone.value_or(WallTime{}), work.request.time);
    work.datafile->tombstone_known = true;
  }
  SPATE_CO_TRY(const DatafileLock::Hold hold, co_await work.datafile->lock.exclusive({}));
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kRemove;
  SPATE_CO_TRY(std::ignore, co_await run_on_member(work, request));
  work.parts.datafiles.close(*work.datafile);
  auto unlisted = co_await work.group.log.unlist(work.key.id);
  co_return unlisted;
}

/// Raises the change counter to the primary's. A change with a time moves the counter to that time in ns, and one
/// further when it ends.
job::Task<Result<void>> settle_member(MemberWork& work) {
  SPATE_CO_TRY(const DatafileLock::Hold hold, co_await work.datafile->lock.exclusive({}));
  const flow::Asker asker(ClientId(), wire::Priority::kControl);
  SPATE_CO_TRY(trove::BytestreamStat stat, co_await stat_datafile(work.group.target, asker, work.key.id, {}));
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kTruncate;
  request.size = work.request.size;
  if (stat.size != work.request.size || stat.change_counter == 0) {
    SPATE_CO_TRY(std::ignore, co_await run_on_member(work, request));
  }
  SPATE_CO_TRY(stat, co_await stat_datafile(work.group.target, asker, work.key.id, {}));
  if (stat.change_counter != 0 && stat.change_counter + 1 < work.request.counter) {
    request.op = trove::BytestreamOp::kNoteChange;
    request.id = work.key.id;
    request.now = WallTime{static_cast<std::int64_t>(work.request.counter - 1)};
    SPATE_CO_TRY(std::ignore, co_await run_op(work.group.target, asker, request, {}));
  }
  if (work.request.truncate_generation == 0) co_return Result<void>();
  auto stored = co_await store_truncate(work.parts, work.key, work.request.truncate_generation);
  co_return stored;
}

job::Task<Result<void>> note_on_member(MemberWork& work) {
  ChangeLog& log = work.group.log;
  const std::uint64_t window = work.request.window;
  Result<void> noted;
  switch (work.request.change) {
    case MirrorChange::kTruncate: noted = co_await log.note_from(work.key.id, work.request.size, window); break;
    case MirrorChange::kRemove: noted = co_await log.note_from(work.key.id, 0, window); break;
    case MirrorChange::kSettle: noted = co_await log.note_from(work.key.id, work.request.size, window); break;
    case MirrorChange::kSync: break;
    default: noted = co_await log.note(work.key.id, work.extents, window); break;
  }
  co_return noted;
}

job::Task<Result<void>> remove_datafile_of(Parts& parts, Target& target, DatafileId datafile) {
  const DatafileTable::Use use = parts.datafiles.use({target.description.id, datafile});
  SPATE_CO_TRY(const DatafileLock::Hold hold, co_await use->lock.exclusive({}));
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kRemove;
  request.id = datafile;
  const flow::Asker asker(ClientId(), wire::Priority::kControl);
  SPATE_CO_TRY(std::ignore, co_await run_op(target, asker, request, {}));
  parts.datafiles.close(*use);
  co_return Result<void>();
}

}  // namespace

Result<void> check_forward(const wire::MirrorForwardRequest& request) {
  const auto bad = [] { return Error(Errc::kProtocol, "a forwarded change"); };
  if (!request.handle || request.slot >= kMaxSlots || request.number == 0) return bad();
  if (request.change < MirrorChange::kWrite || request.change > MirrorChange::kSettle) return bad();
  if (request.extents.size() > wire::kMaxMirrorExtents || request.bulk_bytes > wire::kMirrorMostBytes) return bad();
  if (request.size > trove::kMaxDatafileBytes || (request.bulk_bytes > 0 && !request.data.empty())) return bad();
  std::uint64_t total = 0;
  for (const wire::MirrorRange& range : request.extents) {
    if (range.offset > trove::kMaxDatafileBytes || range.size > trove::kMaxDatafileBytes - range.offset) return bad();
    if (range.size > trove::kMaxDatafileBytes - total) return bad();
    total += range.size;
  }
  const bool is_write = request.change == MirrorChange::kWrite;
  if ((is_write ? total : 0) != request.bulk_bytes + request.data.size()) return bad();
  if (!changes_extents(request.change) && !request.extents.empty()) return bad();
  return {};
}

ChangedRegion first_region(const wire::MirrorForwardRequest& request) {
  ChangedRegion first{{request.handle, request.slot}, false, 0};
  first.to_the_end = !changes_extents(request.change);
  std::uint64_t begin = ~std::uint64_t{0};
  for (const wire::MirrorRange& range : request.extents) begin = std::min(begin, range.offset);
  if (!first.to_the_end && !request.extents.empty()) first.region = begin / ChangedRegion::kBytes;
  if (last_region(request) - first.region >= ChangeLog::kMostOfOneChange) first.to_the_end = true;
  return first;
}

std::uint64_t last_region(const wire::MirrorForwardRequest& request) {
  std::uint64_t end = 1;
  for (const wire::MirrorRange& range : request.extents) end = std::max(end, range.offset + range.size);
  return (end - 1) / ChangedRegion::kBytes;
}

job::Task<Result<void>> carry_out_forward(Parts& parts, MirrorGroup& group, const wire::MirrorForwardRequest& request,
                                          ByteView data) {
  const DatafileKey key{group.self, {request.handle, request.slot}};
  MemberWork work{parts, group, request, data, key, parts.datafiles.use(key), {}};
  for (const wire::MirrorRange& range : request.extents) work.extents.push_back({range.offset, range.size});
  SPATE_CO_TRY(std::ignore, co_await parts.marks.note(request.handle));
  SPATE_CO_TRY(std::ignore, co_await note_on_member(work));
  Result<void> done;
  switch (request.change) {
    case MirrorChange::kTruncate: done = co_await truncate_member(work); break;
    case MirrorChange::kRemove: done = co_await remove_member(work); break;
    case MirrorChange::kSettle: done = co_await settle_member(work); break;
    case MirrorChange::kSync: done = co_await sync_mirrored(parts, group, key.id, {}); break;
    default: done = co_await change_member_extents(work); break;
  }
  if (!done) note_if_full(parts, group.target, done.code());
  co_return done;
}

job::Task<Result<void>> remove_copies(Parts& parts, MirrorGroup& group, job::StopToken stop) {
  wire::MirrorForwardRequest request;
  request.change = MirrorChange::kRemove;
  request.window = group.log.newest_window();
  for (;;) {
    SPATE_CO_TRY(const std::vector<DatafileId> page, co_await group.log.list({}, kPageOfCopies));
    if (page.empty()) break;
    for (const DatafileId& datafile : page) {
      if (stop.stopped()) co_return Errc::kCancelled;
      request.handle = datafile.handle;
      request.slot = datafile.slot;
      for (Target& other : parts.targets) {
        if (&other != &group.target.get()) {
          SPATE_CO_TRY(std::ignore, co_await remove_datafile_of(parts, other, datafile));
        }
      }
      SPATE_CO_TRY(std::ignore, co_await carry_out_forward(parts, group, request, {}));
    }
  }
  auto forgotten = co_await group.log.forget(request.window);
  co_return forgotten;
}

job::Task<Result<void>> sync_mirrored(Parts& parts, MirrorGroup& group, DatafileId datafile, job::StopToken stop) {
  SPATE_CO_TRY(const SyncOutcome outcome, co_await sync_datafile(parts, group.target, datafile, stop));
  if (outcome.lossy) co_return Error(Errc::kIoError, "write-back has failed");
  // Without its place in the list, the datafile would not be copied to a member that lacks all data.
  auto durable = co_await group.log.make_durable();
  co_return durable;
}

job::Task<Result<void>> sync_noted(Parts& parts, MirrorGroup& group, std::uint64_t window, job::StopToken stop) {
  job::DeadlineScope scope(parts.executor, MonoTime::never(), stop);
  std::vector<job::Task<Result<void>>> tasks;
  for (const DatafileId& datafile : group.log.datafiles(window))
    tasks.push_back(sync_mirrored(parts, group, datafile, scope.token()));
  auto done = co_await job::run_all(parts.executor, std::move(tasks), scope.source());
  co_return done;
}

}  // namespace spate::io
