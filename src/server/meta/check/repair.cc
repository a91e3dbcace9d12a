// SPDX-License-Identifier: Apache-2.0
// repair: finds the repair function for a finding, and waits for overdue background work.
#include "server/meta/check/repair.h"

#include "job/deadline.h"
#include "server/meta/core/core.h"

namespace spate::meta {
namespace {

using wire::Damage;

/// How long a repair waits for io servers. Less than any client's deadline.
constexpr Duration kWorkTimeout = std::chrono::seconds(8);
constexpr Duration kPollPeriod = std::chrono::milliseconds(20);

RepairFunction repair_function_of(Damage damage) {
  switch (damage) {
    case Damage::kDanglingEntry: return mend_dangling_entry;
    case Damage::kMissingDirectory: return mend_missing_directory;
    case Damage::kWrongEntryType: return mend_entry_type;
    case Damage::kMisfiledEntry: return mend_misfiled_entry;
    case Damage::kWrongDirectoryCounts: return mend_directory_counts;
    case Damage::kUnreadableRecord: return tell_unreadable_record;
    case Damage::kWrongLinkCount: return mend_link_count;
    case Damage::kOrphanInode: return mend_orphan_inode;
    case Damage::kUnfinishedUnlink: return mend_unfinished_unlink;
    case Damage::kWrongParent: return mend_wrong_parent;
    case Damage::kUnknownParent: return fill_parent;
    case Damage::kSecondName: return mend_second_name;
    case Damage::kDirectoryLoop: return mend_directory_loop;
    case Damage::kWrongXattrCounts: return mend_xattr_counts;
    case Damage::kUnknownTarget: return tell_unknown_target;
    case Damage::kHandleNotGiven: return tell_handle_not_given;
    case Damage::kWrongOpenCount: return mend_open_count;
    case Damage::kSizeNotAsked: return mend_size_not_asked;
    case Damage::kTruncateWithoutIntent: return mend_truncate_without_intent;
    case Damage::kStrayIntent: return mend_stray_intent;
    case Damage::kStrayUnsettled: return mend_stray_unsettled;
    case Damage::kStrayOpen: return mend_stray_open;
    case Damage::kStrayXattr: return mend_stray_xattr;
    case Damage::kStrayAnswer: return mend_stray_answer;
    case Damage::kRemovalOfLiveFile: return mend_removal_of_live_file;
    case Damage::kWrongSize: return mend_wrong_size;
    default: return nullptr;
  }
}

/// Adds the path of the finding, if it is known and the repair function has not done so.
job::Task<Result<void>> tell_path(Repair& repair) {
  const wire::Finding& finding = repair.finding;
  wire::MetaRepairReply& reply = repair.reply;
  const bool named = finding.directory && !finding.name.empty();
  if (!reply.path.empty() || !named || reply.outcome == wire::RepairOutcome::kGone) co_return {};
  SPATE_CO_TRY(reply.path, co_await path_of(repair.operation, finding.directory, finding.name));
  co_return {};
}

Outcome<wire::MetaRepairReply> run_mender(Operation& operation, const wire::MetaRepairRequest& request) {
  const RepairFunction repair_function = repair_function_of(request.finding.damage);
  if (repair_function == nullptr)
    co_return Error::told(Errc::kNotSupported, "a kind of damage that this server does not know");
  Repair repair{operation, request.finding, request.apply, {}};
  SPATE_CO_TRY(std::ignore, co_await repair_function(repair));
  SPATE_CO_TRY(std::ignore, co_await tell_path(repair));
  co_return std::move(repair.reply);
}

/// The key of the record that stands for background work.
std::optional<StoreKey> key_of_work(const wire::Finding& finding) {
  switch (finding.damage) {
    case Damage::kStuckTruncate: return truncate_key(finding.handle);
    case Damage::kStuckSize: return unsettled_key(finding.handle);
    case Damage::kStuckRemoval: return removal_key(finding.handle);
    default: return std::nullopt;
  }
}

job::Task<Result<std::optional<Bytes>>> work_record(MetaCore& core, StoreKey key) {
  job::Transaction store = core.store().begin();
  auto read = co_await store.get(key, trove::ReadMode::kSnapshot);
  if (read.status != Errc::kOk) co_return read.status;
  co_return std::move(read.value);
}

/// The reason why datafiles of a removed file still exist.
std::string removal_obstacle(MetaCore& core, ByteView value) {
  const auto record = decode_record<RemovalRecord>(value);
  if (!record) return "its record cannot be read";
  for (const Slot& slot : record->layout.slots) {
    for (const TargetId target : slot.targets) {
      if (core.has_target(target)) continue;
      return "target " + std::to_string(target.value) + " is on no server of this file system: put its server back";
    }
  }
  return "an io server that holds its datafiles does not answer, or cannot remove them: see `spate status` and its log";
}

job::Task<Result<void>> wait_for_removal(MetaCore& core, StoreKey key, Handle handle, job::StopToken stop) {
  core.parts().removals->hurry(handle);
  for (;;) {
    SPATE_CO_TRY(const auto value, co_await work_record(core, key));
    if (!value) co_return {};
    const auto slept = co_await core.executor().sleep(kPollPeriod, stop);
    if (!slept) co_return Error(slept.code(), removal_obstacle(core, *value));
  }
}

job::Task<Result<wire::MetaRepairReply>> hurry_work(MetaCore& core, rpc::Call& call,
                                                    const wire::MetaRepairRequest& request, StoreKey key) {
  const wire::Finding& finding = request.finding;
  wire::MetaRepairReply reply;
  SPATE_CO_TRY(const auto value, co_await work_record(core, key));
  if (!value) co_return reply;
  reply.outcome = wire::RepairOutcome::kConfirmed;
  if (!request.apply) co_return reply;
  job::DeadlineScope scope(core.executor(), core.executor().now() + kWorkTimeout, call.stop);
  Result<void> done;
  if (finding.damage == Damage::kStuckRemoval) {
    done = co_await wait_for_removal(core, key, finding.handle, scope.token());
  } else {
    done = co_await core.parts().intent_recovery->settled(finding.handle, scope.token());
  }
  reply.outcome = done ? wire::RepairOutcome::kRepaired : wire::RepairOutcome::kLeft;
  reply.note = done ? "it was finished" : done.error().context();
  if (!done && reply.note.empty()) reply.note = done.error().message();
  co_return reply;
}

/// The reason why the record cannot be read; nothing if it can.
std::optional<Error> reading_error(ByteView key, ByteView value) {
  const auto error_of = [](auto decoded) { return decoded ? std::optional<Error>() : std::move(decoded).error(); };
  switch (static_cast<KeyKind>(key[0])) {
    case KeyKind::kInode: {
      auto record = decode_record<InodeRecord>(value);
      if (record && record->handle().value != parse_id_key(key))
        return Error(Errc::kCorrupt, "the inode record under this key is that of another object");
      return error_of(std::move(record));
    }
    case KeyKind::kEntry:
      if (!parse_entry_key(key)) return Error(Errc::kCorrupt, "a directory entry has an invalid key in the store");
      return error_of(decode_record<EntryRecord>(value));
    case KeyKind::kOpen:
      if (!parse_open_key(key)) return Error(Errc::kCorrupt, "an open record has an invalid key in the store");
      return error_of(decode_record<OpenRecord>(value));
    case KeyKind::kXattr:
      return parse_xattr_key(key) ? std::optional<Error>()
                                  : Error(Errc::kCorrupt, "an extended attribute has an invalid key in the store");
    case KeyKind::kSession: return error_of(decode_record<SessionRecord>(value));
    case KeyKind::kAnswer: return error_of(decode_record<AnswerRecord>(value));
    case KeyKind::kRemoval: return error_of(decode_record<RemovalRecord>(value));
    case KeyKind::kTruncate: return error_of(decode_record<TruncateIntent>(value));
    case KeyKind::kUnsettled: return error_of(decode_record<UnsettledRecord>(value));
    default: return std::nullopt;
  }
}

}  // namespace

job::Task<Result<void>> tell_unreadable_record(Repair& repair) {
  const Bytes& key = repair.finding.key;
  if (key.empty() || key.size() > StoreKey::kMaxBytes) co_return {};
  const auto read = co_await repair.operation.store().get(key, trove::ReadMode::kSnapshot);
  if (read.status != Errc::kOk) co_return read.status;
  if (!read.value) co_return {};
  const auto error = reading_error(key, *read.value);
  if (!error) co_return {};
  const bool newer = error->code() == Errc::kFormatTooNew;
  repair.leave(error->message() + (newer ? ": use a newer spated" : ": see docs/fsck.md, \"By hand\""));
  co_return {};
}

job::Task<Result<Bytes>> meta_repair(MetaCore& core, rpc::Call& call, ByteView body) {
  const auto request = wire::decode_body<wire::MetaRepairRequest>(body);
  if (!request) co_return Error(Errc::kProtocol, request.error().context());
  if (request->apply) {
    const wire::Finding& finding = request->finding;
    call.deed = "repair " + std::string(wire::damage_name(finding.damage)) +
                " handle=" + std::to_string(finding.handle.value) +
                " directory=" + std::to_string(finding.directory.value) + " name=" + finding.name;
  }
  core.name_filter().clear();  // a repair changes the store without the filter's knowledge
  const auto work = key_of_work(request->finding);
  if (work) {
    const StoreKey key = *work;
    SPATE_CO_TRY(auto reply, co_await hurry_work(core, call, *request, key));
    Bytes out;
    wire::encode_body(reply, out);
    co_return out;
  }
  Result<Bytes> done = Errc::kUnknown;
  if (request->apply) {
    done = co_await core.change(call, body, &encoded_body<wire::MetaRepairRequest, &run_mender>);
  } else {
    done = co_await core.read(call, body, &encoded_body<wire::MetaRepairRequest, &run_mender>);
  }
  co_return done;
}

}  // namespace spate::meta
