// SPDX-License-Identifier: Apache-2.0
#include "server/meta/names/sizes.h"

#include <algorithm>

#include "log/log.h"
#include "rpc/permits.h"
#include "server/meta/core/core.h"
#include "server/meta/names/objects.h"
#include "server/meta/store/access.h"

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
    note_change_sum(inode, data.change_sum);
  }
  inode.keep_mtime = false;
  inode.written_by_users = false;
  a.size_known = true;
  ++a.version;
}

bool believes_summary_of(Operation& operation, const InodeRecord& inode) {
  const bool users = operation.call().peer->user_key.has_value();
  return !users || !lends_rights(inode.attributes.mode) || owns(operation.who(), inode.attributes);
}

/// Once `writers` is 0, it stays 0 until the last writer has closed. It also becomes 0 after 2^32 opens.
void begin_write(InodeRecord& inode) {
  if (inode.write_opens == 0) {
    inode.writers = 1;
    ++inode.write_generation;
  } else if (inode.writers != 0) {
    ++inode.writers;
  }
  ++inode.write_opens;
}

bool end_writes(InodeRecord& inode, std::uint32_t opens) {
  if (opens > inode.write_opens) {
    SPATE_LOG("server/meta", error, "more opens for writing end than were counted handle={}", inode.handle().value);
  }
  const bool wrote = inode.write_opens > 0;
  inode.write_opens -= std::min(opens, inode.write_opens);
  if (inode.write_opens == 0) inode.writers = 0;  // the record needs it no more
  return wrote && inode.write_opens == 0;
}

void leave_unsettled(Operation& operation, InodeRecord& inode) {
  const Handle handle = inode.handle();
  const TraceId trace = operation.call().header.trace;
  inode.attributes.size_known = false;
  operation.put(unsettled_key(handle), UnsettledRecord{operation.now()});
  operation.deferred().when_committed([intent_recovery = operation.core().parts().intent_recovery, handle, trace] {
    intent_recovery->added(handle, trace);
  });
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

namespace {

void put_intent(Operation& operation, InodeRecord& inode, TruncateIntent intent) {
  const Handle handle = inode.handle();
  const TraceId trace = operation.call().header.trace;
  inode.truncating = true;
  intent.when = operation.now();
  // An io server ignores a generation that is not newer than the last one. If the store was put back from a backup, the
  // inode knows fewer than the io servers do; the clock goes on.
  const auto now = static_cast<std::uint64_t>(std::max<std::int64_t>(intent.when.ns, 0));
  inode.truncate_generation = std::max(inode.truncate_generation + 1, now);
  intent.generation = inode.truncate_generation;
  intent.layout = *inode.layout;
  operation.put(truncate_key(handle), intent);
  operation.deferred().when_committed([intent_recovery = operation.core().parts().intent_recovery, handle, trace] {
    intent_recovery->added(handle, trace);
  });
}

TruncateAsker asker_of(const Operation& operation, Rights opened) {
  const wire::RequestHeader& header = operation.call().header;
  return {header.client, header.session_epoch, header.id.slot, header.id.sequence, opened};
}

/// Replaces the stored answer by the error. The answer waits for the truncation and is read again afterwards, so no
/// client has got the old one.
job::Task<Result<void>> tell_asker(Operation& operation, TruncateAsker asker, Error why) {
  if (!asker.client || asker.slot == wire::RequestId::kNoSlot) co_return {};
  const StoreKey key = answer_key(asker.client, asker.slot);
  SPATE_CO_TRY(auto answer, co_await operation.get<AnswerRecord>(key));
  if (!answer || answer->sequence != asker.sequence) co_return {};
  answer->status = why.code();
  answer->context = wire::context_of(why);
  answer->body.clear();
  answer->truncates = Handle();
  operation.put(key, *answer);
  co_return {};
}

job::Task<Result<void>> end_open_of(Operation& operation, TruncateAsker asker, InodeRecord& inode) {
  if (!asker.client || asker.opened == Rights::kNone) co_return {};
  const StoreKey key = open_key(inode.handle(), asker.client, asker.epoch);
  SPATE_CO_TRY(auto open, co_await operation.get<OpenRecord>(key));
  if (!open) co_return {};
  const auto take = [](std::uint32_t& count, bool one) { count -= one && count > 0 ? 1 : 0; };
  const bool wrote = allows(asker.opened, Rights::kWrite) && open->writers > 0;
  take(open->readers, allows(asker.opened, Rights::kRead));
  take(open->writers, allows(asker.opened, Rights::kWrite));
  if (wrote) std::ignore = end_writes(inode, 1);
  if (open->readers + std::uint64_t{open->writers} > 0) {
    operation.put(key, *open);
    co_return {};
  }
  operation.erase(key);
  operation.deferred().when_committed([opens = operation.core().parts().opens, client = asker.client,
                                       handle = inode.handle()] { opens->dropped(client, handle); });
  co_return {};
}

}  // namespace

job::Task<Result<void>> give_up_truncation(Operation& operation, Handle handle, std::uint64_t generation, Error why) {
  SPATE_CO_TRY(const auto intent, co_await operation.get<TruncateIntent>(truncate_key(handle)));
  if (!intent || intent->generation != generation) co_return {};
  operation.erase(truncate_key(handle));
  SPATE_CO_TRY(std::ignore, co_await tell_asker(operation, intent->asker, why));
  SPATE_CO_TRY(auto inode, co_await operation.get<InodeRecord>(inode_key(handle)));
  if (!inode) co_return {};
  inode->truncating = false;
  SPATE_CO_TRY(std::ignore, co_await end_open_of(operation, intent->asker, *inode));
  if (why.code() == Errc::kFileTooBig && intent->before && inode->write_opens == 0) {
    // Some datafiles may have grown before another one was refused. Nothing has been written behind the old end.
    TruncateIntent back;
    back.size = *intent->before;
    back.asker = {intent->asker.client, intent->asker.epoch, wire::RequestId::kNoSlot, 0, Rights::kNone};
    put_intent(operation, *inode, std::move(back));
  } else if (inode->write_opens == 0) {
    leave_unsettled(operation, *inode);
  }
  auto put = co_await put_or_remove(operation, *inode);
  co_return put;
}

void begin_truncate(Operation& operation, InodeRecord& inode, std::uint64_t size, bool alone, Rights opened) {
  Attributes& a = inode.attributes;
  TruncateIntent intent;
  intent.size = size;
  intent.asker = asker_of(operation, opened);
  touch(inode, operation.now());
  drop_setid_bits(operation.who(), a);
  a.mtime = operation.now();  // stands if no datafile changes
  if (inode.write_opens == 0) {
    if (lends_in_doubt(inode)) drop_setid_bits(a);  // its datafiles will not be asked any more
    inode.written_by_users = false;
    // If the file has datafiles, a crash of an io machine may have brought back data that an earlier truncation had
    // cut.
    const bool as_it_is = a.size_known && a.size == size && a.change_sum == 0 && inode.truncate_generation == 0;
    // A truncation that extends the file may be refused. Until it succeeds the file has its old size. If the datafiles
    // have not been asked after the last writer yet, they determine the size meanwhile.
    if (a.size_known && size > a.size) intent.before = a.size;
    if (a.size_known && !intent.before) a.size = size;
    inode.keep_mtime = false;
    if (as_it_is) return;
  } else if (!alone) {
    inode.writers = 0;  // the writers' own reports about the datafiles are out of date now
  }
  put_intent(operation, inode, std::move(intent));
  operation.deferred().answer_after_truncate(inode.handle());
}

Result<void> after_truncations(Operation& operation, const InodeRecord& inode) {
  if (!inode.truncating) return {};
  const job::StopToken stop = operation.call().stop;
  return operation.deferred().run_again_after([intent_recovery = operation.core().parts().intent_recovery,
                                               handle = inode.handle(),
                                               stop] { return intent_recovery->truncated(handle, stop); });
}

void drop_setid_bits(Attributes& a) {
  a.mode &= ~kSetUid;
  if ((a.mode & kGroupExecute) != 0) a.mode &= ~kSetGid;
}

void drop_setid_bits(const Credential& who, Attributes& a) {
  if (!is_root(who)) drop_setid_bits(a);
}

void note_change_sum(InodeRecord& inode, std::uint64_t change_sum) {
  Attributes& a = inode.attributes;
  if (inode.written_by_users && change_sum != a.change_sum) drop_setid_bits(a);
  a.change_sum = change_sum;
}

bool lends_in_doubt(const InodeRecord& inode) {
  return inode.written_by_users && !inode.attributes.size_known && lends_rights(inode.attributes.mode);
}

bool size_in_doubt(MetaCore& core, const InodeRecord& inode) {
  return inode.truncating && inode.attributes.size_known && core.parts().intent_recovery->inherited(inode.handle());
}

job::Task<bool> show_as_it_is(Operation& operation, InodeRecord& inode) {
  Attributes& a = inode.attributes;
  if (size_in_doubt(operation.core(), inode)) a.size_known = false;
  const bool lends = lends_in_doubt(inode);
  const bool asks_here = operation.confinement() != nullptr && inode.layout && !a.size_known;
  if (!lends && !asks_here) co_return false;
  const Layout layout = *inode.layout;
  // An io server may be silent for long.
  const rpc::ReleasedPermit released(operation.call());
  const auto data = co_await operation.core().parts().io->stat(inode.handle(), layout, operation.call().stop);
  if (lends && (!data || data->change_sum != a.change_sum)) drop_setid_bits(a);
  if (!asks_here || !data) co_return false;
  a.size = data->size;
  a.allocated_bytes = data->allocated_bytes;
  if (data->change_sum != a.change_sum) a.mtime = data->mtime;
  a.ctime = std::max(a.ctime, a.mtime);
  a.size_known = true;
  co_return true;
}

}  // namespace spate::meta
