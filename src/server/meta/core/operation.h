// SPDX-License-Identifier: Apache-2.0
// Operation: one request and its access to the store; and functions that turn an operation's function into a row of the
// operation table.
#pragma once

#include <any>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_function.h"
#include "job/storage.h"
#include "rpc/call.h"
#include "server/meta/core/confinement.h"
#include "server/meta/core/deferred_by_run.h"
#include "server/meta/core/directory_locks.h"
#include "server/meta/core/made_at_client.h"
#include "server/meta/core/met_by_run.h"
#include "server/meta/core/read_record.h"
#include "server/meta/core/touched_by_run.h"
#include "server/meta/store/keys.h"
#include "server/meta/store/records.h"
#include "wire/archive.h"
#include "wire/handles.h"
#include "wire/lease_messages.h"

namespace spate::meta {

class MetaCore;
class NameFilter;
struct MetaParts;

/// Objects that all operations share; they outlive the operations.
struct OperationParts {
  job::KeyvalContext& store;
  DirectoryLocks& locks;
  NameFilter& name_filter;
  const NameHash& name_hash;
  MetaParts& meta;
};

/// kNotSupported, with a sentence, if the peer is a client of a version that does not know files with such a layout.
Result<void> check_knows(const rpc::Peer& peer, const Layout& layout);

/// The context of an operation's function.
///
/// Life cycle: made by MetaCore for one request or internal change -> for each run: begin() on a fresh transaction, the
/// function, the commit -> acknowledged -> destroyed. The function may run several times for one request, so its only
/// effects before the commit are in the transaction, in kept(), and in changes() and deferred(), which begin() empties.
/// Only the locks and kept() outlast a run. A function passes on kConflict from any call here, and the operation then
/// runs again.
///
/// One executor. The function's frame may keep references to it; nothing may keep them after the reply.
class Operation {
 public:
  enum class Kind : std::uint8_t {
    kRead,    // nothing is put; reads see one state of the store and are not checked
    kChange,  // one transaction; what is read with kChecked is checked at commit
  };
  Operation(MetaCore& core, const OperationParts& parts, rpc::Call& call, Kind kind);
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() { end_changes(false); }

  MetaCore& core() { return core_; }
  rpc::Call& call() { return call_; }
  const rpc::Call& call() const { return call_; }
  /// The incarnation of the connection on which the request came.
  std::uint64_t incarnation() const { return incarnation_; }
  const Credential& who() const { return call_.peer->credential; }
  Kind kind() const { return kind_; }
  /// File-system time of this run: the operation stores it as "now".
  WallTime now() const { return made_.now(); }
  /// The time and the handle that the client has given to the change.
  MadeAtClient& made_at_client() { return made_; }
  job::Transaction& store() { return *store_; }

  /// read_record() of this run's transaction. Reads are checked in a change unless `mode` says otherwise.
  template <typename Record>
  job::Task<Result<std::optional<Record>>> get(StoreKey key, trove::ReadMode mode) {
    return read_record<Record>(store(), key, kind_ == Kind::kRead ? trove::ReadMode::kSnapshot : mode);
  }
  template <typename Record>
  job::Task<Result<std::optional<Record>>> get(StoreKey key) {
    return get<Record>(key, trove::ReadMode::kChecked);
  }
  template <typename Record>
  void put(const StoreKey& key, const Record& record) {
    encode_record(record, scratch_);
    put_raw(key.view(), scratch_);
  }

  /// Puts an encoded value.
  void put_raw(ByteView key, ByteView value);
  void erase(ByteView key);

  /// Reads the inode. Fails with kStaleHandle when it is gone, with kNotSupported if the file is mirrored and the
  /// asking client does not know such files, and with kPermissionDenied if the object is beyond the caller's `reach`.
  job::Task<Result<InodeRecord>> inode(Handle handle, trove::ReadMode mode = trove::ReadMode::kChecked,
                                       Reach reach = Reach::kInside);
  void put(const InodeRecord& inode) {
    changes_.note_inode(inode);
    put(inode_key(inode.handle()), inode);
  }
  /// The caller's key is confined to a directory. Null: it is not.
  Confinement* confinement() { return confinement_.get(); }
  /// Reads entry `name` of a directory. Yields nothing when there is none.
  job::Task<Result<std::optional<EntryRecord>>> entry(Handle directory, std::string name, trove::ReadMode mode);
  job::Task<Result<std::optional<EntryRecord>>> entry(Handle directory, std::string name) {
    return entry(directory, std::move(name), trove::ReadMode::kChecked);
  }
  void put_entry(Handle directory, std::string_view name, const EntryRecord& record);
  void erase_entry(Handle directory, std::string_view name);

  /// Locks these directories, so that their changes run one after another. Succeeds at once if they are free. Otherwise
  /// it yields kConflict, and the operation runs again when it holds them. Call it before reading anything that they
  /// protect.
  Result<void> lock(std::vector<Handle> directories);
  /// The changes of this run to objects on which clients may have leases.
  const TouchedByRun& changes() const { return changes_; }
  /// The run opens a file for reading that somebody may be writing: before the reply, others send what they have
  /// gathered for it.
  void open_for_reading(Handle file) { changes_.note_reader(file); }
  MetByRun& met() { return met_; }
  const MetByRun& met() const { return met_; }
  /// Marks everything that this run touches as being changed until the operation has ended.
  void begin_changes();
  /// From now on, records each name that is looked up, and the object it leads to, in `trail`; null: nowhere.
  void keep_trail(std::vector<wire::LeaseStep>* trail) { trail_ = trail; }
  std::vector<wire::LeaseStep>* trail() { return trail_; }
  /// Starts a new transaction on the present state of the store. Call it before anything is put.
  void see_the_latest() { begin(); }

  /// How many conflicts this request has had. A function may take more locks after a conflict.
  unsigned conflicts() const { return conflicts_; }

  /// The things that this run leaves to be done when the function has returned.
  DeferredByRun& deferred() { return deferred_; }
  /// State that a function keeps between runs; empty at first.
  std::any& kept() { return kept_; }

 private:
  friend class MetaCore;
  void begin();
  void end_changes(bool committed);

  MetaCore& core_;
  const OperationParts parts_;
  rpc::Call& call_;
  const Kind kind_;
  MadeAtClient made_;
  MetByRun met_;
  std::optional<job::Transaction> store_;
  std::unique_ptr<Confinement> confinement_;
  LockSet locks_;
  std::vector<Handle> wanted_locks_;
  unsigned conflicts_ = 0;
  std::any kept_;
  DeferredByRun deferred_;
  Bytes scratch_;
  const std::uint64_t incarnation_;
  TouchedByRun changes_;
  wire::Touched answered_touch_;  // the objects that the committed run touched
  wire::Granted answered_grant_;
  std::vector<Handle> changing_;  // the objects of all runs so far
  std::vector<wire::LeaseStep>* trail_ = nullptr;
};

/// A change without a request, for a session that has ended or a truncation to be finished. Called for each run. The
/// operation's call belongs to no client.
using InternalChange = UniqueFunction<job::Task<Result<void>>(Operation& operation)>;

/// An operation's function with encoded messages.
using Body = job::Task<Result<Bytes>> (*)(Operation& operation, ByteView request);

/// `Function` is a Task<Result<Reply>>(Operation&, const Request&).
template <typename Request, auto Function>
job::Task<Result<Bytes>> encoded_body(Operation& operation, ByteView request_bytes) {
  const auto request = wire::decode_body<Request>(request_bytes);
  if (!request) co_return Error(Errc::kProtocol, request.error().context());
  if (Confinement* const confinement = operation.confinement()) {
    SPATE_CO_TRY(std::ignore, co_await confinement->admit_all(operation.store(), wire::handles_of(*request)));
  }
  SPATE_CO_TRY(auto reply, co_await Function(operation, *request));
  Bytes out;
  wire::encode_body(reply, out);
  co_return out;
}

}  // namespace spate::meta
