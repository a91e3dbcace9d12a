// SPDX-License-Identifier: Apache-2.0
// Workload: the random work of one client, and its reports to the models.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "client/file/cached_pages.h"
#include "tests/cluster/scene.h"

namespace spate::cluster {

/// The workload uses this range of a file, except for a few writes beyond it.
inline constexpr std::uint64_t kFileBytes = 48 * 1024;

/// One for each client process, which it outlives. Most requests of a client follow one another. Several reads, writes
/// and syncs of its open files may be in flight at once.
class Workload {
 public:
  Workload(Scene& scene, ClientProcess& process, int index, std::uint64_t seed);
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  /// Works until no operations are left, a failure is found, or the process dies.
  job::Task<void> run();
  bool finished() const { return finished_; }
  /// Valid only while World::client(node()) is not null.
  ClientProcess& process() { return process_; }
  int index() const { return index_; }
  std::uint32_t node() const { return node_; }
  /// The last known session. Valid even when the process is gone.
  ClientId session();

  /// Ends the process in order. Call it once finished() is true.
  void leave();
  bool has_left() const { return left_; }

  /// Call it when the process has been killed. It will report no results of operations in flight.
  void killed();
  bool was_killed() const { return killed_; }
  /// Call it when nothing of the client's session can take effect any more.
  void fenced();
  bool is_fenced() const { return fenced_; }
  /// Its first write in flight, if there is one. `until`: when the write can no longer take effect after a kill.
  std::optional<Scene::LateWrite> late_write(MonoTime until) const;
  /// Call it when nothing of its session and of its truncations can take effect any more.
  void everything_over();

 private:
  /// The use of a file. The name by which it was first opened decides it.
  enum class Use : std::uint8_t {
    kData,
    kLog,      // for appends only
    kScratch,  // for copies; each client has its own place
  };
  struct OpenFile {
    std::unique_ptr<client::File> file;
    std::uint64_t handle = 0;
    Rights rights = Rights::kNone;
    std::uint32_t epoch = 0;  // of the session when it was opened
    Use use = Use::kData;
    std::vector<AppendId> appended;
  };
  using OpenFilePtr = std::shared_ptr<OpenFile>;  // shared, since a batch may use it while it is closed
  /// A failed write or truncation that may still take effect.
  struct Doubt {
    WriteId id = 0;
    std::uint64_t handle = 0;
    bool truncation = false;
    bool request_over = false;  // truncations: only the intent may be left
    Layout layout;
  };

  /// The pages of a file that a mount's kernel would keep.
  struct Pages {
    Bytes data;
    std::uint64_t crashes = 0;  // number of crashes when it was read
  };

  job::Task<void> one();
  void step_wall_clock();
  job::Task<void> use_a_file();

  // Names (workload_names.cc, workload_name_choices.cc).
  NameOp choose_change();
  NameOp choose_look();
  NameOp choose_rename();
  Path some_path(bool existing);
  Path path_of(NodeId node);
  Path below(Path directory);
  NodeId some_directory();
  NodeId some_object(bool regular_only);
  job::Task<void> do_name(NameOp op);
  job::Task<void> settle_given_up();
  job::Task<Facts> perform(const NameOp& op);
  job::Task<Facts> perform_attributes(const NameOp& op);
  static DistributionSpec distribution_for(std::string_view name);
  job::Task<Facts> open_file(const NameOp& op);
  job::Task<Facts> stat(const NameOp& op);
  job::Task<Facts> list(const NameOp& op);
  void told(NodeId number, const NameOp& op, const Facts& facts, MonoTime begun);
  /// Whether an answer may come from leases granted before the last crash of the meta server's machine.
  bool may_not_know_of_crash(MonoTime begun);

  // Locks and appends (workload_locks.cc).
  wire::LockSpec some_lock(std::uint64_t handle);
  LockClaim claim_of(const wire::LockSpec& lock);
  job::Task<void> lock(OpenFilePtr open);
  job::Task<void> set_lock(wire::LockSpec lock, bool waits);
  job::Task<void> test_lock(wire::LockSpec lock);
  job::Task<void> release_locks(std::uint64_t handle);
  job::Task<void> use_a_log();
  job::Task<void> append(OpenFilePtr log);
  job::Task<void> sync_log(OpenFilePtr log);
  job::Task<void> read_log(OpenFilePtr log);

  // Data under a lock (workload_guard.cc, workload_overlap.cc, workload_silence.cc).
  job::Task<void> use_under_lock();
  job::Task<void> work_under_lock(OpenFilePtr file, LockClaim claim);
  /// Makes the client silent for longer than its lease; perhaps one of its changes is held up meanwhile.
  job::Task<bool> fall_silent(OpenFilePtr file, LockClaim claim, Bytes& known);
  job::Task<bool> cut_behind_a_refusal(OpenFilePtr file, LockClaim claim, Bytes& known);
  job::Task<bool> cut_behind_another(OpenFilePtr file, LockClaim claim, Bytes& known);
  job::Task<bool> write_in_grace(OpenFilePtr file, LockClaim claim, Bytes& known);
  job::Task<bool> come_back_before_the_cut(OpenFilePtr file, LockClaim claim, Bytes& known);
  void be_silent_for(Duration span);
  job::Task<void> grow_guarded();
  job::Task<bool> change_guarded(OpenFilePtr file, LockClaim claim, Bytes& known);
  job::Task<bool> cut_guarded(OpenFilePtr file, LockClaim claim, Bytes& known, bool by_handle);
  job::Task<bool> failed_guarded(OpenFilePtr file, LockClaim claim, Errc code, bool cut);
  job::Task<bool> is_over(OpenFilePtr file, bool cut);
  /// Writes and truncates at the same time. On each datafile, one must come before the other.
  job::Task<bool> write_and_cut_guarded(OpenFilePtr file, LockClaim claim, Bytes& known);
  job::Task<bool> overlap_failed(OpenFilePtr file, LockClaim claim, Errc written, Errc cut, MonoTime begun);
  job::Task<void> release_guard(std::uint64_t handle);
  job::Task<Bytes> read_guarded(OpenFilePtr file);
  job::Task<bool> write_guarded(OpenFilePtr file, LockClaim claim, Bytes& known, Extent where);

  // Errors of write-back (workload_loss.cc).
  job::Task<void> share_a_loss();

  // Copies (workload_copies.cc).
  OpenFilePtr scratch_file();
  job::Task<void> make_scratch_file();
  job::Task<void> map_data(OpenFilePtr open);
  job::Task<void> copy(OpenFilePtr open);

  // Pages (workload_pages.cc).
  job::Task<void> use_pages();
  job::Task<std::shared_ptr<client::File>> open_with_pages(std::uint64_t handle, bool writes);
  job::Task<void> close_with_pages(std::shared_ptr<client::File> file);
  job::Task<void> check_cached_pages(std::shared_ptr<client::File> file, ReadId id);
  job::Task<void> fill_pages(std::shared_ptr<client::File> file);
  job::Task<void> write_through_pages(std::shared_ptr<client::File> file, std::uint64_t most);

  // Data (workload_data.cc, workload_opens.cc; statfs and access_root are in workload.cc).
  job::Task<void> open_something(bool truncate);
  job::Task<void> open_by_handle(std::uint64_t handle, Rights rights, bool truncate);
  job::Task<void> truncate_by_handle();
  job::Task<void> truncate_too_far(std::uint64_t handle);
  job::Task<void> statfs();
  job::Task<void> access_root();
  job::Task<void> batch();
  job::Task<void> data_operation(OpenFilePtr open);
  job::Task<void> read(OpenFilePtr open);
  job::Task<void> write(OpenFilePtr open) { return write_at(open, some_extents()); }
  job::Task<void> write_at(OpenFilePtr open, std::vector<Extent> extents);
  job::Task<void> write_where_late();
  job::Task<void> punch(OpenFilePtr open);
  job::Task<void> sync(OpenFilePtr open);
  job::Task<void> fstat(OpenFilePtr open);
  job::Task<void> ftruncate(OpenFilePtr open);
  job::Task<void> close(OpenFilePtr open);
  /// Closes all files at the same time, so that one request to the meta server carries several closes.
  job::Task<void> close_all();
  /// Several writes at the same time, and then a close that reports the file's size.
  job::Task<void> last_writes(OpenFilePtr open);
  job::Task<void> settle_doubts();
  job::Task<bool> barrier(std::uint64_t handle, const Layout& layout);
  std::vector<Extent> some_extents();
  OpenFilePtr some_open(Rights rights);
  /// An open of this data file for writing; null: none.
  OpenFilePtr writable(std::uint64_t handle);
  /// Tells the model for this use that the file exists.
  void know(OpenFile& open, Use params);
  void note_failure(std::string_view what, Errc code, MonoTime begun);
  void note_unsynced(std::uint64_t handle, WriteId id);
  /// Whether the meta server may have forgotten this open.
  bool open_lost(const OpenFile& open);
  bool dead() const { return killed_; }

  Scene& scene_;
  ClientProcess& process_;
  const int index_;
  const std::uint32_t node_;
  SeededRandom random_;
  NodeId under_way_ = 0;  // the name-space operation in flight
  ClientId under_way_as_;
  ClientId given_up_as_;
  bool given_up_ = false;
  std::vector<OpenFilePtr> open_;
  std::vector<Doubt> doubts_;
  std::map<std::uint64_t, std::vector<WriteId>> unsynced_;        // by file: acknowledged since the last sync
  std::vector<WriteId> writing_;                                  // writes and punches in flight
  std::vector<client::CachedPages::PageRecord> kept_memory_{16};  // few, so that some displace others
  client::CachedPages kept_{kept_memory_};
  std::map<std::uint64_t, Pages> pages_;  // by handle
  ClientId session_;
  bool finished_ = false;
  bool left_ = false;
  bool killed_ = false;
  bool fenced_ = false;
};

}  // namespace spate::cluster
