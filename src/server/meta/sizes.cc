// SPDX-License-Identifier: Apache-2.0
#include "server/meta/sizes.h"

#include <algorithm>

#include "log/log.h"
#include "server/meta/access.h"
#include "server/meta/core.h"
#include "server/meta/objects.h"

namespace spate::meta {

void store_summary(InodeRecord& inode, const wire::DataSummary& data) {
  Attributes& a = inode.attributes;
  a.size = data.size;
  a.allocated_bytes = data.allocated_bytes;
  if (data.change_sum != a.change_sum) {
    if (!inode.keep_mtime) {
      a.mtime = data.mtime;
      a.ctime = std::max(a.ctime, data.mtime);
    }
    a.change_sum = data.change_sum;
  }
  inode.keep_mtime = false;
  a.size_known = true;
  ++a.version;
}

bool end_writes(InodeRecord& inode, std::uint32_t opens) {
  if (opens > inode.write_opens) {
    SPATE_LOG("server/meta", error, "more opens for writing end than were counted handle={}", inode.handle().value);
  }
  const bool wrote = inode.write_opens > 0;
  inode.write_opens -= std::min(opens, inode.write_opens);
  return wrote && inode.write_opens == 0;
}

void leave_unsettled(Operation& operation, InodeRecord& inode) {
  const Handle handle = inode.handle();
  const TraceId trace = operation.call().header.trace;
  inode.attributes.size_known = false;
  operation.put(unsettled_key(handle), UnsettledRecord{operation.now()});
  operation.when_committed(
      [settler = operation.core().parts().settler, handle, trace] { settler->added(handle, trace); });
}

job::Task<Result<void>> put_or_remove(Operation& operation, InodeRecord& inode) {
  if (inode.attributes.link_count == 0) {
    SPATE_CO_TRY(const bool open, co_await is_open(operation, inode.handle()));
    if (!open) {
      auto removed = co_await remove_object(operation, inode);
      co_return removed;
    }
  }
  operation.put(inode);
  co_return {};
}

void begin_truncate(Operation& operation, InodeRecord& inode, std::uint64_t size, bool alone) {
  Attributes& a = inode.attributes;
  const Handle handle = inode.handle();
  const TraceId trace = operation.call().header.trace;
  touch(inode, operation.now());
  drop_lent_rights(operation.who(), a);
  if (inode.write_opens == 0) {
    // Of a file that has datafiles, a crash of an io machine may have brought back what an earlier truncation had cut.
    const bool as_it_is = a.size_known && a.size == size && a.change_sum == 0 && inode.truncate_generation == 0;
    a.size = size;
    a.size_known = true;
    a.mtime = operation.now();
    inode.keep_mtime = false;
    if (as_it_is) return;
  } else if (!alone) {
    inode.single_writer = false;  // what the writer knows of the datafiles is out of date now
  }
  inode.truncating = true;
  ++inode.truncate_generation;
  operation.put(truncate_key(handle), TruncateIntent{size, inode.truncate_generation, operation.now(), *inode.layout});
  operation.when_committed(
      [settler = operation.core().parts().settler, handle, trace] { settler->added(handle, trace); });
  operation.answer_after_truncate(handle);
}

Result<void> after_truncations(Operation& operation, const InodeRecord& inode) {
  if (!inode.truncating) return {};
  const job::StopToken stop = operation.call().stop;
  return operation.run_again_after([settler = operation.core().parts().settler, handle = inode.handle(), stop] {
    return settler->settled(handle, stop);
  });
}

void drop_lent_rights(const Credential& who, Attributes& a) {
  if (is_root(who)) return;
  a.mode &= ~kSetUid;
  if ((a.mode & kGroupExecute) != 0) a.mode &= ~kSetGid;
}

}  // namespace spate::meta
