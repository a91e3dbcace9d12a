// SPDX-License-Identifier: Apache-2.0
// Interfaces of parts that operations use although the parts' rooms lie above theirs: sessions, opens, locks, leases,
// background work, io servers. Each comment names the circle of rooms that the interface cuts.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "job/storage.h"
#include "job/task.h"
#include "rpc/call.h"
#include "server/meta/store/records.h"
#include "wire/event_messages.h"
#include "wire/io_messages.h"
#include "wire/lease_messages.h"
#include "wire/membership_messages.h"
#include "wire/meta_messages.h"

namespace spate::meta {

class AnswerTable;
class Operation;
class SessionEvents;

/// A file whose datafiles are to be removed.
struct DeadFile {
  Handle handle;
  Layout layout;
};

/// The outcome of a request to remove the datafiles of several files.
struct RemoveOutcome {
  std::vector<bool> removed;           // for each file: all of its datafiles are gone
  std::vector<TargetId> out_of_reach;  // targets that did not answer, or failed
  Result<void> failure;                // the error of the first of them
};

/// Requests to the io servers that hold a file's datafiles. Each request waits until every server concerned has
/// answered. It fails with the first error when a server cannot answer (kTimeout, kUnreachable), at its own deadline,
/// or when the token stops it. The error names the server.
///
/// An interface, since core/ and names/ ask io servers and background/, where ChannelIoServers is, includes both. Tests
/// implement it, too.
class IoServers {
 public:
  virtual ~IoServers() = default;
  /// The size, times and change counters of all datafiles combined.
  virtual job::Task<Result<wire::DataSummary>> stat(Handle handle, Layout layout, job::StopToken stop) = 0;
  /// Truncates all datafiles. Repeatable: a generation has its effect once.
  virtual job::Task<Result<wire::DataSummary>> truncate(Handle handle, TruncateIntent intent, job::StopToken stop) = 0;
  /// Removes the datafiles of all these files and leaves tombstones until the given time. Repeatable.
  virtual job::Task<RemoveOutcome> remove(std::vector<DeadFile> files, WallTime tombstone_until,
                                          job::StopToken stop) = 0;
  /// Makes every io server refuse this client's epochs below `lowest_epoch` from now on. Repeatable.
  virtual job::Task<Result<void>> fence(ClientId client, std::uint32_t lowest_epoch, job::StopToken stop) = 0;
  /// Which numbers this server has met.
  virtual job::Task<Result<wire::UsedNumbersReply>> used_numbers(ServerId /*server*/, job::StopToken /*stop*/) {
    co_return wire::UsedNumbersReply();
  }
  /// The server has joined the cluster map, or has more targets than before. Every fence from now on reaches it.
  virtual void server_added(const ServerEntry& server) = 0;
  /// The record of a group of targets is new, or has changed. It is durable.
  virtual void group_changed(const DataGroup& /*group*/) {}
  /// The name of a server that has not yet answered a stat or truncate of this file. Empty: there is none.
  virtual std::string unanswered(Handle) const { return {}; }
};

/// Records which session has which file open. All changes are part of the operation's own transaction.
///
/// An interface, since names/ opens files and session/, where OpenTable is, includes names/. Tests of names/ stand in
/// for it, too.
class Opens {
 public:
  virtual ~Opens() = default;
  /// Adds an open by the calling session with the rights that `open_flags` (wire::OpenFlags) ask for, changes `inode`
  /// accordingly (the caller puts it) and signs the capability. No check of permissions. `fresh`: the file was made by
  /// this operation, so that nobody has it open.
  virtual job::Task<Result<Capability>> add(Operation& operation, InodeRecord& inode, std::uint8_t open_flags,
                                            bool fresh) = 0;
  /// Opens an existing object for an OpenRequest: checks permissions, adds the open, truncates if asked, puts the
  /// inode. First it waits for a truncation that is under way.
  virtual job::Task<Result<wire::OpenReply>> open_existing(Operation& operation, InodeRecord inode,
                                                           std::uint8_t open_flags) = 0;
  /// OpenRequest::renew: a new capability for an open that the calling session has already. Without such an open it
  /// does the same as open_existing().
  virtual job::Task<Result<wire::OpenReply>> renew(Operation& operation, InodeRecord inode,
                                                   std::uint8_t open_flags) = 0;
  /// Ends one open of the calling session: erases or puts its record, not the inode. kBadDescriptor when it has none
  /// with these rights.
  virtual job::Task<Result<void>> drop(Operation& operation, Handle handle, Rights rights) = 0;
  /// False: no session has it open, and no operation under way is about to open it. Does not read the store.
  virtual bool may_be_open(Handle /*handle*/) const { return true; }
  /// An open record without a file or session was erased, so the end of the client's session has one record fewer to
  /// examine.
  virtual void dropped(ClientId /*client*/, Handle /*handle*/) {}
};

/// The sessions of clients (docs/consistency.md, "Sessions"). A session is open until the client ends it or its lease
/// expires. Then its epoch is fenced at the io servers, and what it held is released; an expired session may come back
/// in a higher epoch.
///
/// An operation asks admit() when its request arrives, and check() in each run, since the session may end while the
/// operation waits.
///
/// An interface, since core/ admits requests and session/, where SessionTable is, includes core/. Tests of core/ and
/// names/ stand in for it, too: their requests come from clients without sessions.
class Sessions {
 public:
  virtual ~Sessions() = default;
  /// Service::join().
  virtual job::Task<Result<void>> join(rpc::Peer& peer, const wire::AuthenticateRequest& request,
                                       wire::AuthenticateReply& reply) = 0;
  /// Checks that the call's session is alive, and renews its lease. Fails with kSessionUnknown or kSessionFenced.
  /// Cheap.
  virtual Result<void> admit(const rpc::Call& call) = 0;
  /// The same check for a request that was admitted a while ago. It does not renew the lease.
  virtual Result<void> check(const rpc::Call& call) const = 0;
  virtual job::Task<Result<wire::KeepAliveReply>> keep_alive(rpc::Call& call, wire::KeepAliveRequest request) = 0;
  /// Ends the session. The server releases everything it held in the background.
  virtual job::Task<Result<wire::EndSessionReply>> end(rpc::Call& call, wire::EndSessionRequest request) = 0;
  virtual std::uint64_t count() const = 0;
  /// New clients get numbers beyond this one only.
  virtual void skip_clients(ClientId /*used*/) {}
  /// True while something that an ended epoch of the session held is not yet released. The session may be open again in
  /// a later epoch.
  virtual bool is_ending(ClientId /*client*/) const { return false; }
  /// The fences that io servers have received or are receiving, of clients above `after`: ascending, at most
  /// kMaxFences.
  virtual wire::ListFencesReply fences(ClientId /*after*/) const { return {}; }
  /// Ends the present epoch of a session as an expired lease does: the epoch is fenced, and what it held is released.
  /// `why`: for the log.
  virtual void end_epoch(ClientId /*client*/, std::string_view /*why*/) {}
  /// The same for all sessions that were opened or resumed with this key, which was revoked.
  virtual void end_sessions_of(const KeyId& /*key*/) {}
};

/// Locks or leases that sessions hold, in memory only. The store knows which sessions may hold any.
///
/// An interface with an implementation for each of both: session/ releases what an ended session held, and locks/ and
/// leases/ include session/.
class SessionHoldings {
 public:
  virtual ~SessionHoldings() = default;
  /// Clients that may have held any before the restart, from the store.
  virtual std::vector<ClientId> noted() const { return {}; }
  /// The client's epochs below this one have ended: what they held passes to others that wait for it. Locks are
  /// released only when the io servers have fenced those epochs. Repeatable.
  virtual job::Task<Result<void>> release(ClientId client, std::uint32_t below_epoch, job::StopToken stop) = 0;
};

/// Attribute leases: which clients keep copies of which attributes and names (docs/consistency.md, "Attribute leases").
///
/// For each change: begin_change() for each object that it touches -> recall() awaited -> the commit -> keep_changed(),
/// if the commit succeeded -> end_change() for the same objects. Between begin_change() and end_change() nobody gets a
/// lease on the object by looking it up. So no client keeps a copy from before the commit after it.
///
/// An interface, since core/ recalls leases and leases/, where LeaseManager is, includes core/. Tests of names/ stand
/// in for it, too: a recall of theirs ends when the test wants.
class Leases : public SessionHoldings {
 public:
  virtual job::Task<Result<wire::LookupLeaseReply>> look_up(Operation& operation,
                                                            const wire::LookupLeaseRequest& request) = 0;
  virtual job::Task<Result<wire::ListLeaseReply>> list(Operation& operation, const wire::ListLeaseRequest& request) = 0;
  /// Called before the commit of an operation, after begin_change() for everything that it touches. Waits until no
  /// client but the operation's own has a lease on any of it. If the call is stopped first, the operation must not be
  /// committed.
  virtual job::Task<Result<void>> recall(Operation& operation) = 0;
  /// begin_change() and end_change() enclose the change: from before recall() until the commit is done or abandoned.
  /// `removed`: the object is gone.
  virtual void begin_change(Handle object) = 0;
  /// Called between the commit and end_change(). Yields the leases that the client which made the change gets on what
  /// it changed.
  virtual wire::Granted keep_changed(Operation& /*operation*/) { return {}; }
  virtual void end_change(Handle object, bool removed) = 0;
  /// Whether anything is delegated to a session, or may still be since before a restart. If not, meets() need not be
  /// asked in this run of an operation.
  virtual bool delegates() const { return false; }
  /// Grows with each end of a delegation.
  virtual std::uint64_t ends_of_delegations() const { return 0; }
  /// Whether the operation must not use what it reads of this object: changes of it may be queued at another session,
  /// or have come from there since `ends` was the number of ends.
  virtual bool meets(const Operation& /*operation*/, Handle /*object*/, std::uint64_t /*ends*/) const { return false; }
  /// Waits until the sessions that keep the operation from what it has met have sent all that they had queued. The
  /// operation holds no locks meanwhile.
  virtual job::Task<Result<void>> recall_met(Operation& /*operation*/) { co_return {}; }
  /// Whether some session may gather writes.
  virtual bool any_gathers() const { return false; }
  /// The session has asked for events. `knows_table`: it has named the table of this process.
  virtual void heard(ClientId client, std::uint32_t epoch, bool knows_table) = 0;
  /// The session has dropped its copy of the object that this event recalled.
  virtual void acknowledged(ClientId client, std::uint32_t epoch, const wire::SessionEvent& event) = 0;
};

/// Deletes datafiles of removed files in the background.
///
/// An interface, since names/ reports removals, and background/, where RemovalQueue is, lies above names/. Tests of
/// names/ stand in for it, too: they look at what is reported.
class Removals {
 public:
  virtual ~Removals() = default;
  /// A removal record was committed.
  virtual void added(Handle handle) = 0;
  virtual std::uint64_t pending() const = 0;
  /// Tries this removal now, even at targets that were out of reach a moment ago.
  virtual void hurry(Handle /*handle*/) {}
  /// Another part has erased a removal record.
  virtual void dropped() {}
};

/// Brings inodes into agreement with their datafiles, in the background: finishes truncations, and asks for size and
/// mtime of files that nobody writes any more.
///
/// An interface, since core/ and names/ wait for truncations and background/, where FileIntentRecovery is, includes
/// both. Tests of names/ stand in for it, too.
class IntentRecovery {
 public:
  virtual ~IntentRecovery() = default;
  /// The request with this trace (0: none) has committed a truncate intent or an unsettled record of this file.
  virtual void added(Handle handle, TraceId trace) = 0;
  /// Waits until no work is left for this file. If stopped first, it fails with the reason and names the obstacle. If
  /// an io server has refused for a while, it fails with that server's error; intent recovery keeps trying.
  virtual job::Task<Result<void>> settled(Handle handle, job::StopToken stop) = 0;
  /// Waits until no truncation of this file is under way: it has been done or given up. Fails as settled() does.
  virtual job::Task<Result<void>> truncated(Handle handle, job::StopToken stop) = 0;
  /// Waits until no truncation is under way that the client asked for in an epoch below this one. The client cannot ask
  /// for more in those epochs. Fails as settled() does.
  virtual job::Task<Result<void>> truncated_for(ClientId client, std::uint32_t below_epoch, job::StopToken stop) = 0;
  /// The stored truncation of this file was begun by an earlier process. It may have been answered: after a crash of
  /// the machine, the store may still have an intent that had been carried out.
  virtual bool inherited(Handle /*handle*/) const { return false; }
};

/// Not owned; all of them outlive the operations.
struct MetaParts {
  IoServers* io = nullptr;
  Sessions* sessions = nullptr;
  AnswerTable* answers = nullptr;
  Opens* opens = nullptr;
  Removals* removals = nullptr;
  IntentRecovery* intent_recovery = nullptr;
  SessionHoldings* locks = nullptr;  // null: none are held
  Leases* leases = nullptr;          // null: none are given
  SessionEvents* events = nullptr;   // null: none are told
};

}  // namespace spate::meta
