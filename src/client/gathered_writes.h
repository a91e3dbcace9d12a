// SPDX-License-Identifier: Apache-2.0
// GatheredWrites: writes that a client has acknowledged and will send together (docs/mount.md, "Gathered writes").
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "client/session/event_listener.h"
#include "client/session/gather_memory.h"
#include "client/session/limits.h"
#include "job/event.h"
#include "job/gate.h"
#include "job/stop.h"
#include "job/task.h"
#include "model/ids.h"

namespace spate::client {

class AttributeCache;

/// One file whose writes may be gathered. Any number of calls of send() at once; the object lives until they have
/// ended.
///
/// An interface, since Cluster, to which GatheredWrites belongs, lies below the files.
class GatheringFile {
 public:
  virtual ~GatheringFile() = default;
  /// Sends what was gathered before the call, and waits until the servers have it, or have failed.
  virtual job::Task<void> send() = 0;
  /// Whether the servers lack something that was gathered.
  virtual bool unsent() const = 0;
  /// Gives up what is left, which the log then names.
  virtual void lose(Error why) = 0;
  /// When the oldest byte was gathered that no request carries yet. Nothing: there is none.
  virtual std::optional<MonoTime> since() const = 0;
};

/// All files of one client whose writes are gathered. A caller of something that must come after these
/// writes calls send() first.
///
/// Life cycle: construct -> calls -> request_stop() -> stop() awaited -> destroyed. The files have left before stop().
/// One executor. Not movable.
class GatheredWrites final : public SessionWrites {
 public:
  using FilePtr = std::shared_ptr<GatheringFile>;

  /// `memory` null: nothing is gathered. All parameters outlive this object.
  GatheredWrites(Session& session, AttributeCache& attributes, GatherMemory* memory);
  GatheredWrites(const GatheredWrites&) = delete;
  GatheredWrites& operator=(const GatheredWrites&) = delete;

  GatherMemory* memory() const { return memory_; }
  /// The file may gather from now on, until leave(). The server counts on this client's answer to a recall.
  void join(Handle handle, FilePtr file);
  void leave(Handle handle);
  bool any() const override { return !files_.empty(); }

  /// Whether the targets have room for much more than all memory can hold, as far as that was asked lately.
  bool has_room();
  /// The same for any thread. The executor asks later, if that is due.
  bool room_is_known();
  /// A file has begun to gather.
  void begun();

  /// Sends what was gathered for the file before the call.
  job::Task<void> send(Handle handle);
  /// Begins to send it. Does not wait.
  void send_soon(Handle handle);
  job::Task<void> send_all();
  /// The same, for `limit` at most. False: something is not sent by then.
  job::Task<bool> send_all_within(Duration limit);
  /// Gives up what is not sent.
  void lose_all(const Error& why);
  /// Logs a loss, and counts it.
  void note_loss(const GatherMemory::Piece& piece, const Error& error);
  /// From now on nothing is gathered.
  void end_gathering() { ended_ = true; }

  /// Names files for the log. The function must be able to do so at once, and may know no name.
  void name_files_by(std::function<std::string(Handle)> name_of) { name_of_ = std::move(name_of); }
  std::string name_of(Handle file) const { return name_of_ ? name_of_(file) : std::string(); }
  job::Task<bool> send_revoked(Duration limit) override;
  /// Whether the file has writes that the servers do not have.
  bool has(Handle handle) const;

  /// Ends what is being sent: it fails.
  void request_stop() { stopping_.request_stop(); }
  job::StopToken stop_token() { return stopping_; }
  job::Task<void> stop();

  /// Any thread may read them.
  struct Counters {
    std::atomic<std::uint64_t> writes = 0;  // that were gathered
    std::atomic<std::uint64_t> sent = 0;    // requests that carried them
  };
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }
  /// Waits, for `limit` at most, until nothing is left that an earlier process has gathered. False: something is.
  job::Task<bool> none_inherited(Duration limit);
  /// A piece that an earlier process has left was sent, or is lost. Until that is so for all of them, this client gives
  /// back no lease.
  void taken_over();

 private:
  job::Task<void> send_file(FilePtr file);
  job::Task<void> watch();
  job::Task<void> ask_for_room();
  std::vector<FilePtr> unsent(bool only_revoked) const;
  void send_old();
  bool none_unsent() const;

  Session& session_;
  AttributeCache& attributes_;
  GatherMemory* const memory_;
  std::map<Handle, FilePtr> files_;
  bool watching_ = false;
  bool asking_ = false;
  std::optional<MonoTime> room_asked_;
  std::atomic<bool> ended_ = false;
  std::atomic<bool> to_ask_ = false;     // the executor was told to
  std::atomic<MonoTime> room_until_{};   // until then there is room
  std::atomic<MonoTime> room_ask_at_{};  // when to ask again
  std::function<std::string(Handle)> name_of_;
  std::size_t inherited_ = 0;
  Counters counters_;
  job::Event sent_;  // set when a file's writes were sent
  job::StopSource stopping_;
  job::Gate gate_;
};

}  // namespace spate::client
