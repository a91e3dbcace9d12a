// SPDX-License-Identifier: Apache-2.0
// Workload: what one client does, at random, and what it tells the models of it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "client/file/kept_pages.h"
#include "tests/cluster/scene.h"

namespace spate::cluster {

/// Bytes of a file that the workload uses, but for writes that go beyond.
inline constexpr std::uint64_t kFileBytes = 48 * 1024;

/// One a client process; outlives it. All requests of a client follow one another, but for reads, writes and syncs of
/// its open files, of which it has several under way at times.
class Workload {
 public:
  Workload(Scene& scene, ClientProcess& process, int index, std::uint64_t seed);
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  /// Works until the scene has no operations left, a failure, or the death of the process.
  job::Task<void> run();
  bool finished() const { return finished_; }
  /// Only while World::client(node()) is there: then the process may be gone.
  ClientProcess& process() { return process_; }
  int index() const { return index_; }
  std::uint32_t node() const { return node_; }
  /// As last known: the process may be gone.
  ClientId session();

  /// Ends the process in order, once finished.
  void leave();
  bool has_left() const { return left_; }

  /// The process has been killed: nothing more will be told of what it had under way.
  void killed();
  bool was_killed() const { return killed_; }
  /// Nothing of its session can take effect any more.
  void fenced();
  bool is_fenced() const { return fenced_; }
  /// Its first write under way, if any, and until when that may still land once it is killed.
  std::optional<Scene::LateWrite> late_write(MonoTime until) const;
  /// Neither of its session nor of its truncations anything is left.
  void everything_over();

 private:
  /// What a file is good for, by the name under which it was first opened.
  enum class Use : std::uint8_t {
    kData,
    kLog,      // is only appended to
    kScratch,  // takes copies, each client's in a place of its own
  };
  struct OpenFile {
    std::unique_ptr<client::File> file;
    std::uint64_t handle = 0;
    Rights rights = Rights::kNone;
    std::uint32_t epoch = 0;  // of the session when it was opened
    Use use = Use::kData;
    std::vector<AppendId> appended;
  };
  using OpenFilePtr = std::shared_ptr<OpenFile>;  // a batch works on it while another may close it
  /// A write or truncation that failed and may still be under way somewhere.
  struct Doubt {
    WriteId id = 0;
    std::uint64_t handle = 0;
    bool truncation = false;
    bool request_over = false;  // of a truncation: only the intent may be left
    Layout layout;
  };

  /// What a mount's kernel would have of a file.
  struct Pages {
    Bytes data;
    std::uint64_t crashes = 0;  // that there had been when it was read
  };

  job::Task<void> one();
  void step_wall_clock();
  job::Task<void> change_something();
  job::Task<void> look_at_something();
  job::Task<void> use_a_file();

  // Names (workload_names.cc).
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
  /// What is answered now may come from leases of before the last crash of the meta server's machine.
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

  // Data under a lock (workload_guard.cc).
  job::Task<void> use_under_lock();
  job::Task<void> work_under_lock(OpenFilePtr file, LockClaim claim);
  /// For longer than its lease, and perhaps with a change under way that something holds up.
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
  /// A write and a truncation at once: on each datafile one of them is before the other.
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
  job::Task<void> check_kept_pages(std::shared_ptr<client::File> file, ReadId id);
  job::Task<void> fill_pages(std::shared_ptr<client::File> file);
  job::Task<void> write_through_pages(std::shared_ptr<client::File> file, std::uint64_t most);

  // Data (workload_data.cc).
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
  /// At the same time, so that they go to the meta server several to a request.
  job::Task<void> close_all();
  /// Several at once, and then the close that tells the file's size.
  job::Task<void> last_writes(OpenFilePtr open);
  job::Task<void> settle_doubts();
  job::Task<bool> barrier(std::uint64_t handle, const Layout& layout);
  std::vector<Extent> some_extents();
  OpenFilePtr some_open(Rights rights);
  /// Of a data file that is open for writing; null: none.
  OpenFilePtr writable(std::uint64_t handle);
  /// Tells the model of what it is used for that it is there.
  void know(OpenFile& open, Use params);
  void note_failure(std::string_view what, Errc code, MonoTime begun);
  void note_unsynced(std::uint64_t handle, WriteId id);
  /// The meta server may know nothing of this open any more.
  bool open_lost(const OpenFile& open);
  bool dead() const { return killed_; }

  Scene& scene_;
  ClientProcess& process_;
  const int index_;
  const std::uint32_t node_;
  SeededRandom random_;
  NodeId under_way_ = 0;  // the name-space operation
  ClientId under_way_as_;
  ClientId given_up_as_;
  bool given_up_ = false;
  std::vector<OpenFilePtr> open_;
  std::vector<Doubt> doubts_;
  std::map<std::uint64_t, std::vector<WriteId>> unsynced_;  // by file: acknowledged since its last sync
  std::vector<WriteId> writing_;                            // writes and punches under way
  std::vector<client::KeptPages::Kept> kept_memory_{16};    // few, so that some displace others
  client::KeptPages kept_{kept_memory_};
  std::map<std::uint64_t, Pages> pages_;  // by handle
  ClientId session_;
  bool finished_ = false;
  bool left_ = false;
  bool killed_ = false;
  bool fenced_ = false;
};

}  // namespace spate::cluster
