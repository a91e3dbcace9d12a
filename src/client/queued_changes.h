// SPDX-License-Identifier: Apache-2.0
// QueuedChanges: changes that this client has answered itself in directories delegated to it, and sends later
// (docs/mount.md, "Delegated directories").
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "client/attributes/local_answers.h"
#include "client/change_log.h"
#include "client/held_changes.h"
#include "client/queued_failures.h"
#include "client/session/change_reply.h"
#include "client/session/event_listener.h"
#include "client/session/gather_memory.h"
#include "client/session/limits.h"
#include "client/session/queue_memory.h"
#include "job/event.h"
#include "job/gate.h"
#include "job/stop.h"
#include "job/task.h"
#include "wire/messages.h"

namespace spate::client {

/// Files whose creation is queued and whose data wait for it, as QueuedChanges sees them (client/queued_files.h).
class QueuedData {
 public:
  virtual ~QueuedData() = default;
  /// Sends the data of all files that there are now, and adds what has waited for them. Fails by the limits.
  virtual job::Task<Result<void>> send_all(Limits limits) = 0;
  /// Begins to do so for closed files whose creation is answered.
  virtual void send_closed() = 0;
  virtual job::Task<void> stop() = 0;
};

/// The changes go to the meta server in their order, many in one transaction, one such batch at a time. All other
/// requests of this client follow the changes that were answered before (Session). The changes survive the process in
/// the QueueMemory, and the server makes none twice.
///
/// Life cycle: construct -> calls -> request_stop() -> stop() awaited -> destroyed. The functions that answer changes
/// are thread-safe, and never wait for the executor; all others belong to the executor. Not movable.
class QueuedChanges final : public SessionChanges {
 public:
  /// `memory` null: every change asks the server. All parameters outlive this object.
  QueuedChanges(Session& session, AttributeCache& attributes, QueueMemory* memory);
  QueuedChanges(const QueuedChanges&) = delete;
  QueuedChanges& operator=(const QueuedChanges&) = delete;

  /// A batch is sent when so many changes wait, or the oldest is 100 ms old, or somebody waits for one.
  static constexpr std::uint64_t kFull = ChangeLog::kFull;

  // Thread-safe. Nothing, or false: the server must be asked. `request_id`: the program's call; 0: unknown.
  bool on() const override { return log_.on(); }
  using NewObject = LocalAnswers::NewObject;
  std::optional<Result<Attributes>> make(const NewObject& made, std::uint64_t request_id);
  std::optional<Result<Attributes>> set(wire::SetattrRequest request, std::uint64_t request_id);
  /// Other changes that need nothing else from this object. Without memory it answers none.
  LocalAnswers& answers() { return local_; }
  /// Keeps a write to a file that make() has opened until the server has made the file.
  bool write(const HeldChanges::Write& write);
  /// The end of an open that make(), or answers(), has opened.
  struct Close {
    Handle file;
    Rights rights = Rights::kNone;
    std::optional<WallTime> read_at = {};  // sets atime
  };
  bool close(const Close& close, std::uint64_t request_id);
  /// Whether anything waits for the server's answer.
  bool any() const { return log_.any() || held_.any(); }
  ChangeLog& log() { return log_; }
  /// Changes of files whose data wait for their creation.
  HeldChanges& held() { return held_; }

  /// Waits until the server has answered everything that was queued before the call, and the io servers have the data
  /// that have waited for it. Fails by the limits, and if the session has ended.
  job::Task<Result<void>> send_all(Limits limits);
  /// The same without data, and what waits for them.
  job::Task<Result<void>> send_changes(Limits limits);
  /// For `limit` at most. False: something is not sent by then.
  job::Task<bool> send_all_within(Duration limit) override;
  /// Waits for the server's answer to the creation of a file that make() has opened. The answer is kept
  /// until then, or until the file is closed.
  job::Task<Result<wire::CreateReply>> answer_of(Handle file, Limits limits);
  QueuedFailures& failures() { return failures_; }

  // For `data`, which outlives the calls.
  void serve(QueuedData& data) { data_ = &data; }
  /// Whether the server will make, or has made, the file, and nobody has asked for the answer.
  bool is_new(Handle file) const { return log_.makes(file) || answers_.contains(file); }
  /// The data of `piece` were sent. Adds what has waited for them. False: there is no room now. kSessionFenced: that is
  /// lost with the session.
  Result<bool> add_later(const GatherMemory::Piece& piece, const std::optional<wire::DataSummary>& data);
  job::StopToken stop_token() { return stopping_; }

  /// Gives up what belongs to another session, or to another epoch.
  void session_changed() override;
  /// The server has told its clock.
  void heard();
  /// A directory was delegated: handles are needed.
  void delegated(Handle directory);
  /// From now on nothing is queued.
  void end_queueing();
  /// Gives up what is not sent, and names it in the log.
  void lose_all(const Error& why);
  /// Names objects for the log. May be called by any thread, and may know no name.
  void name_by(std::function<std::string(Handle)> name_of) { name_of_ = std::move(name_of); }

  /// Something waits for changes that are not sent yet.
  void send_soon();

  void request_stop();
  job::Task<void> stop();

  struct Counters {
    std::uint64_t queued = 0;   // changes that were answered locally
    std::uint64_t batches = 0;  // requests that carried them
    std::uint64_t waiting = 0;  // changes that the server has not answered
    std::uint64_t lost = 0;     // failed at the server, or given up, in all processes of the mount
  };
  /// Thread-safe.
  Counters counters() const;

 private:
  struct Batch;
  void urge();
  void wake();
  void begin_sending();
  job::Task<void> send_while_any();
  job::Task<void> wait_until_due();
  bool due() const;
  job::Task<bool> send_batch();
  void answered(const Batch& batch, const ChangeReply& reply);
  void note_answer(const QueueMemory::Record& record, wire::BatchedAnswer& answer);
  void note_failure(const QueueMemory::Record& record, const Error& error);
  void want_handles();
  job::Task<void> reserve(Handle directory);

  Session& session_;
  ChangeLog log_;
  HeldChanges held_;
  LocalAnswers local_;
  std::atomic<std::uint64_t> batches_ = 0;
  // The rest belongs to the executor.
  QueuedData* data_ = nullptr;
  QueuedFailures failures_;
  std::function<std::string(Handle)> name_of_;
  std::unordered_map<Handle, wire::CreateReply> answers_;
  std::uint64_t done_ = 0;   // the last change that was answered
  std::uint64_t lives_ = 0;  // counts the sessions whose changes were given up
  unsigned waiters_ = 0;
  bool sending_ = false;
  bool soon_ = false;  // the next batch is due
  bool reserving_ = false;
  Handle directory_;  // that was delegated last
  job::Event urged_;
  job::Event answered_;
  job::StopSource stopping_;
  job::Gate gate_;
};

}  // namespace spate::client
