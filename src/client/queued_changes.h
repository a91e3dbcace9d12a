// SPDX-License-Identifier: Apache-2.0
// QueuedChanges: changes that this client has answered itself in directories delegated to it, and sends later
// (docs/mount.md, "Delegated directories").
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "client/attributes/local_answers.h"
#include "client/session/change_reply.h"
#include "client/session/event_listener.h"
#include "client/session/limits.h"
#include "client/session/queue_memory.h"
#include "job/event.h"
#include "job/gate.h"
#include "job/stop.h"
#include "job/task.h"
#include "wire/messages.h"

namespace spate::client {

/// The changes go to the meta server in their order, many in one transaction, one such batch at a time. All other
/// requests of this client follow the changes that were answered before (Session). The changes survive the process in
/// the QueueMemory, and the server makes none twice.
///
/// Life cycle: construct -> calls -> request_stop() -> stop() awaited -> destroyed. The functions that answer changes
/// are thread-safe, and never wait for the executor; all others belong to the executor. Not movable.
class QueuedChanges final : public SessionChanges, private LocalChanges {
 public:
  /// `memory` null: every change asks the server. All parameters outlive this object.
  QueuedChanges(Session& session, AttributeCache& attributes, QueueMemory* memory);
  QueuedChanges(const QueuedChanges&) = delete;
  QueuedChanges& operator=(const QueuedChanges&) = delete;

  /// A batch is sent when so many changes wait, or the oldest is 100 ms old, or somebody waits for one.
  static constexpr std::uint64_t kFull = 128;

  // Thread-safe. Nothing, or false: the server must be asked. `request_id`: the program's call; 0: unknown.
  bool on() const override { return memory_ != nullptr; }
  using NewObject = LocalAnswers::NewObject;
  std::optional<Result<Attributes>> make(const NewObject& made, std::uint64_t request_id);
  std::optional<Result<Attributes>> set(wire::SetattrRequest request, std::uint64_t request_id);
  /// The open of a file that make() has opened.
  bool close(Handle file, Rights rights, std::uint64_t request_id);
  /// A call that an earlier process has answered itself, if its answer may not have reached the program.
  std::optional<QueueMemory::Call> inherited_call(std::uint64_t request_id) const;
  void call_answered(std::uint64_t request_id);
  /// Whether anything waits for the server's answer.
  bool any() const { return size_.load(std::memory_order_acquire) > 0; }
  /// Whether take_failure() may tell something.
  bool any_failed() const { return failed_.load(std::memory_order_relaxed) > 0; }
  /// Whether such a change of the object does.
  bool has(Handle object) const;

  /// Waits until the server has answered everything that was queued before the call. Fails by the limits, and if the
  /// session has ended.
  job::Task<Result<void>> send_all(Limits limits);
  /// For `limit` at most. False: something is not sent by then.
  job::Task<bool> send_all_within(Duration limit) override;
  /// Waits for the server's answer to the creation of a file that make() has opened. The answer is kept
  /// until then, or until the file is closed.
  job::Task<Result<wire::CreateReply>> answer_of(Handle file, Limits limits);
  /// kNotPermitted and the like, once: a queued change of this object has failed.
  std::optional<Error> take_failure(Handle object);

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
  WallTime time(WallTime least) override;
  Handle take_handle() override;
  bool add(Change change) override;
  bool changed_after(Handle object, std::uint64_t number) const override;
  const Credential& credential() const override;

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
  bool knows_numbers() const;
  void want_handles();
  job::Task<void> reserve(Handle directory);

  Session& session_;
  QueueMemory* const memory_;
  LocalAnswers local_;

  mutable std::mutex mutex_;  // guards memory_ and the members up to the next line break
  WallTime last_time_;
  std::int64_t clock_offset_ns_ = 0;
  bool ended_ = false;
  bool called_ = false;  // the executor was told that there is something to send
  std::optional<MonoTime> oldest_;
  std::unordered_map<Handle, std::uint64_t> last_changes_;  // the number of the last queued change of an object
  std::uint64_t queued_ = 0;

  std::atomic<std::uint64_t> size_ = 0;
  std::atomic<std::uint64_t> batches_ = 0;
  std::atomic<std::uint64_t> failed_ = 0;  // size of failures_
  // The rest belongs to the executor.
  std::function<std::string(Handle)> name_of_;
  std::unordered_map<Handle, wire::CreateReply> answers_;
  std::unordered_map<Handle, Error> failures_;
  std::uint64_t done_ = 0;   // the last change that was answered
  std::uint64_t lives_ = 0;  // counts the sessions whose changes were given up
  unsigned waiters_ = 0;
  bool sending_ = false;
  bool reserving_ = false;
  Handle directory_;  // that was delegated last
  job::Event urged_;
  job::Event answered_;
  job::StopSource stopping_;
  job::Gate gate_;
};

}  // namespace spate::client
