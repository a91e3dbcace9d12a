// SPDX-License-Identifier: Apache-2.0
// MetaCore: the store of a meta server and the way operations run on it (docs/consistency.md, "Transactions").
#pragma once

#include "base/random.h"
#include "job/event.h"
#include "job/gate.h"
#include "job/storage.h"
#include "metrics/metrics.h"
#include "server/meta/core/data_groups.h"
#include "server/meta/core/group_servers.h"
#include "server/meta/core/membership.h"
#include "server/meta/core/name_filter.h"
#include "server/meta/core/operation.h"
#include "server/meta/core/options.h"
#include "server/meta/core/parts.h"
#include "server/meta/core/queue_table.h"
#include "server/meta/core/revoked_keys.h"
#include "server/meta/core/used_numbers.h"
#include "server/meta/store/counter.h"
#include "server/meta/store/inode_count.h"

namespace spate::meta {

/// Bytes reserved for the reply header when the room for other parts of a reply is computed.
constexpr std::size_t kReplyHeaderRoom = 1024;

/// One store, one executor, one process. Life cycle: construct -> attach() -> start() -> change() and read() -> stop()
/// awaited -> destroyed.
class MetaCore {
 public:
  /// `store` and `random` outlive it.
  MetaCore(MetaOptions options, job::KeyvalContext& store, Random& random, metrics::Registry& metrics);
  MetaCore(const MetaCore&) = delete;
  MetaCore& operator=(const MetaCore&) = delete;

  void attach(MetaParts parts) { parts_ = parts; }
  /// Reads the superblock, or makes it and the root directory in an empty store. kWrongFileSystem, kFormatTooNew,
  /// kCorrupt: the store is not ours, and nothing was changed.
  job::Task<Result<void>> start();
  /// Makes all commits durable. Every operation must have ended before.
  job::Task<Result<void>> stop();

  /// Runs an operation that changes the store. If the request was answered before, yields that answer. Otherwise it
  /// runs `body` on a transaction, commits the transaction together with the answer, and runs again on conflict. It
  /// replies when the commit is as durable as the options demand. Errors that depend on the name space (kExists) are
  /// stored as answers like successes; transient errors (kTimeout) are not. `call` and `request` outlive the task.
  job::Task<Result<Bytes>> change(rpc::Call& call, ByteView request, Body body);
  /// Runs an operation that only reads. All of its reads see one state of the store.
  job::Task<Result<Bytes>> read(rpc::Call& call, ByteView request, Body body);
  /// Runs an internal change as one transaction, and again on conflict. Fails with kCancelled or kTimeout when it was
  /// stopped before its commit.
  job::Task<Result<void>> run_internal(InternalChange change, trove::Durability durability, job::StopToken stop);
  /// When it ends, everything that was committed before the call is durable. Callers at the same time share one sync of
  /// the store.
  job::Task<Result<void>> sync();

  const MetaOptions& options() const { return options_; }
  /// Call it before a change that a client asks for. kTimeout with a sentence: too few servers hold the records. The
  /// reply will wait until enough of them hold the change.
  Result<void> check_copies(rpc::Call& call) const;
  job::KeyvalContext& store() { return store_; }
  job::Executor& executor() { return store_.executor(); }
  Clock& clock() { return executor().clock(); }
  Random& random() { return random_; }
  MetaParts& parts() { return parts_; }
  DirectoryLocks& locks() { return locks_; }
  NameFilter& name_filter() { return name_filter_; }
  const NameHash& name_hash() const { return name_hash_; }
  /// A handle that no object has ever had; or the first of `count` such handles in a row.
  job::Task<Result<Handle>> new_handle(job::StopToken stop, std::uint64_t count = 1);
  /// kNoSpace, with a sentence: there is room for removals only.
  Result<void> check_space();
  QueueTable& queues() { return queues_; }
  Membership& membership() { return membership_; }
  /// Whether a slot may name this target, or group of targets.
  bool has_target(TargetId target) const {
    return is_group(target) ? data_groups_.find(target) != nullptr
                            : membership_.map().server_of_target(target) != nullptr;
  }
  DataGroups& data_groups() { return data_groups_; }
  GroupServers& group_servers() { return group_servers_; }
  RevokedKeys& revoked_keys() { return revoked_keys_; }
  UsedNumbers& used_numbers() { return used_numbers_; }
  /// The target for the next file's first slot, as an index into membership()'s targets; each call yields the next
  /// index.
  std::uint64_t next_base() { return next_base_++; }
  InodeCount& objects() { return objects_; }

 private:
  void ask_used_numbers();
  void skip_used(ServerId server, const wire::UsedNumbersReply& used);
  job::Task<Result<Bytes>> run_changes(Operation& operation, ByteView request, Body body);
  job::Task<Result<void>> before_next_run(Operation& operation);
  job::Task<Result<void>> after_truncation(const rpc::Call& call, Handle handle);
  job::Task<Result<Bytes>> acknowledge(Operation& operation, Result<Bytes> result);
  job::Task<Result<Bytes>> answer_again(Operation& operation, AnswerRecord answer);
  job::Task<Result<void>> recall(Operation& operation);
  job::Task<Result<void>> recall_met(Operation& operation);
  void committed(Operation& operation);
  job::Task<void> sync_now_and_then();
  job::Task<void> tell_room();

  MetaOptions options_;
  job::KeyvalContext& store_;
  Random& random_;
  MetaParts parts_;
  DirectoryLocks locks_;
  NameFilter name_filter_;
  Counter handles_;
  NameHash name_hash_;
  const OperationParts operation_parts_{store_, locks_, name_filter_, name_hash_, parts_};
  Membership membership_;
  DataGroups data_groups_;
  GroupServers group_servers_;
  RevokedKeys revoked_keys_;
  QueueTable queues_;
  UsedNumbers used_numbers_;
  std::uint64_t next_base_ = 0;
  InodeCount objects_;
  job::Gate gate_;
  job::StopSource stopping_;
  job::Event unsynced_;
  bool syncing_ = false;
  std::uint64_t syncs_begun_ = 0;
  std::uint64_t syncs_ended_ = 0;
  Errc last_sync_ = Errc::kOk;
  bool told_full_ = false;  // the log has reported a full device, and not yet that there is room again
  MonoTime room_until_;     // until then check_space() need not look again
  job::Event sync_ended_;
  metrics::Counter conflicts_;
  metrics::Counter resent_;
};

}  // namespace spate::meta
