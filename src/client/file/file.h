// SPDX-License-Identifier: Apache-2.0
// File: an open file.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/data/data_map.h"
#include "client/data/transfer.h"
#include "client/data/unsynced.h"
#include "client/file/explain.h"
#include "client/session/handover_state.h"
#include "job/event.h"
#include "job/semaphore.h"
#include "wire/meta_messages.h"

namespace spate::client {

/// How a close ends: times and mode to be set in the same request (cp -p).
struct CloseOptions {
  /// A writer asks the io servers, for a second at most, for the datafiles that it does not know: then the meta server
  /// learns the size from the close, if nobody else writes, and need not ask them itself.
  bool learn_data = false;
  /// Nobody hears what the close returns: a write that may be lost is left to be told to the next open.
  bool unheard = false;
  std::optional<WallTime> atime;
  std::optional<WallTime> mtime;
  std::optional<std::uint32_t> mode;
};

/// A range of one file that becomes a range of another, bytes.
struct CopySpan {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t size = 0;
};

/// One open of one file. Reads and writes may run at the same time, any number of them; a completed write is seen by
/// every later read of any client. Life cycle: made by Client::open or create -> close() awaited -> destroyed. One
/// executor.
class File {
 public:
  /// `open_flags`: as it was opened, wire::OpenFlags; what of them a later open must repeat is kept.
  File(Cluster& cluster, wire::OpenReply reply, std::uint8_t open_flags);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// From now on the next process finds in `record` what it must know of this file (client/session/handover_state.h);
  /// outlives it.
  void keep_in(HandoverState::Open& record);
  /// This is a file that another process has opened, of which `record` tells; keep_in() included.
  void inherit(HandoverState::Open& record);

  /// The process ends and another goes on: what servers lend to this one is given back.
  job::Task<void> hand_over(Limits limits);

  /// Of the session in which it is open: of an answer to a resent open, perhaps one that has ended meanwhile. Then the
  /// next operation opens it again, and close() has nothing to close (kSessionFenced).
  std::uint32_t session_epoch() const { return capability_.session_epoch; }
  Handle handle() const { return handle_; }
  const Layout& layout() const { return layout_; }
  /// As open returned them.
  const Attributes& attributes() const { return attributes_; }
  Rights rights() const { return rights_; }
  job::Executor& executor() { return cluster_.executor(); }

  /// At most memory.size() bytes from `offset`; fewer at the end of the file, 0 beyond it. Holes read as zeros.
  job::Task<Result<std::uint64_t>> read(std::uint64_t offset, MutableByteView memory, job::StopToken stop = {});
  /// All of `memory` at `offset`. After a failure part of it may have been written.
  job::Task<Result<void>> write(std::uint64_t offset, ByteView memory, job::StopToken stop = {});
  /// The same for any shape of file and memory (list and datatype I/O): one request and one reply a server.
  job::Task<Result<std::uint64_t>> read_list(const datatype::Description& what, std::span<const MutableByteView> memory,
                                             job::StopToken stop = {});
  job::Task<Result<void>> write_list(const datatype::Description& what, std::span<const ByteView> memory,
                                     job::StopToken stop = {});
  /// All of `memory` at the end of the file, wherever that is by then: appends of all clients follow one another. Where
  /// it was put. After a failure part of it may have been written.
  job::Task<Result<std::uint64_t>> append(std::span<const ByteView> memory, job::StopToken stop = {});
  /// The file is at least so large from now on; what is new is zeros. Not below what others append meanwhile.
  job::Task<Result<void>> extend_to(std::uint64_t size);
  /// Zeros a range (the size stays) / reserves its space.
  job::Task<Result<void>> punch(std::uint64_t offset, std::uint64_t size);
  job::Task<Result<void>> allocate(std::uint64_t offset, std::uint64_t size);
  job::Task<Result<void>> truncate(std::uint64_t size);

  /// Where data and holes are from `offset` on, as far as `max_ranges` ranges of each datafile tell (1..256); and the
  /// size.
  job::Task<Result<DataMap>> data_map(std::uint64_t offset, std::uint32_t max_ranges);
  /// Copies from `source` (which may be this file, without an overlap), holes as holes, at most to its end: the bytes
  /// copied. By the io servers alone where the datafiles lie side by side, else through this client. After a failure
  /// part of it may have been done. Needs the right to read there and to write here.
  job::Task<Result<std::uint64_t>> copy_from(File& source, CopySpan span);

  /// Attributes with size and times as they are now, by the datafiles if they are being written.
  job::Task<Result<Attributes>> stat();
  /// The sum of the change counters of all datafiles, as the io servers tell it within a second: it is another one
  /// after any change of the file's data by anybody.
  job::Task<Result<std::uint64_t>> change_sum_now();
  /// Everything that this client has written and cut before, through whichever open of the file, and the file's entry
  /// and inode, survive a crash of any machine. kLostWrite when a server restarted before an earlier write was synced:
  /// that write may be gone. It is told once to each open that there was then, to all syncs that overlap, and if there
  /// was none to the next one. Also when the file itself is gone, because the meta server's machine went down before
  /// its creation was durable.
  job::Task<Result<void>> sync();
  /// kLostWrite, once, when this client has heard that a write may be lost. Asks no server.
  Result<void> check_lost();
  /// O_NOATIME: what is read through this open is not told of.
  void forget_reads() { reads_count_ = false; }
  /// The next read moves atime.
  bool read_counts() const { return read_due_ && reads_count_; }

  /// Ends the open; the object is of no more use, whatever comes out. A reader tells in the same request when it read
  /// last, where that is due (Options::atime). kLostWrite as in sync().
  /// `on_ended`: as Cluster::close().
  job::Task<Result<Attributes>> close(CloseOptions options = {}, UniqueFunction<void()> on_ended = {});

  /// Which path a read or write of this range would take, slot by slot.
  job::Task<Result<std::vector<SlotPath>>> explain(std::uint64_t offset, std::uint64_t size, bool is_write);
  /// Measurement: forces a data path. kBypass: what cannot be done by this client itself fails.
  void force_path(wire::DataPath path) { path_ = path; }
  /// What this client has read and written past the servers, bytes.
  std::uint64_t bypassed_bytes() const;

 private:
  enum class Kind { kRead, kWrite, kPunch, kAllocate, kExtend };
  struct CopyShare;
  using CopyShares = std::vector<CopyShare>;
  struct Operation;

  TransferTarget target(const Capability& capability);
  job::Task<Result<std::uint64_t>> run(Operation operation);
  job::Task<Result<TransferResult>> run_part(Operation& operation, const datatype::Description& part);
  job::Task<Result<TransferResult>> transfer(const TransferTarget& target, Operation& operation,
                                             const datatype::Description& part, Limits limits);
  Result<Capability> capability_to(bool change) const;
  bool opened_in(const rpc::SessionEpoch& session) const;
  job::Task<Result<void>> make_current(Limits limits);
  job::Task<Result<std::vector<SlotState>>> ask_slots(std::vector<std::uint32_t> slots, bool sync, Limits limits);
  job::Task<Result<void>> renew(Limits limits, Capability refused, Errc why);
  job::Task<Result<void>> open_again(Limits limits);
  /// `memory` at the end; or with `least` not 0 a zero byte there, unless the file reaches as far.
  struct AppendParams {
    std::span<const ByteView> memory;
    std::uint64_t request_id = 0;
    std::uint64_t least = 0;
    job::StopToken stop;
  };
  job::Task<Result<void>> extend_by_servers(std::uint64_t size);
  job::Task<Result<std::uint64_t>> append_in_turn(AppendParams params);
  job::Task<Result<void>> right_in_time(Appends::AppendedPtr file, job::StopToken stop);
  job::Task<Result<std::uint64_t>> append_now(Appends::AppendedPtr file, AppendParams params);
  job::Task<Result<std::uint64_t>> append_once(Appends::Appended& file, AppendParams params);
  job::Task<Result<std::uint64_t>> size_now(Limits limits);
  Result<CopyShares> copy_shares(const File& source, CopySpan span);
  struct CopyRights;
  job::Task<Result<void>> copy_share(const File& source, const CopyShare& share, const CopyRights& rights,
                                     Limits limits);
  job::Task<Result<void>> copy_by_servers(File& source, CopySpan span);
  job::Task<Result<std::uint64_t>> copy_by_client(File& source, CopySpan span);
  job::Task<Result<std::uint64_t>> copy_data(File& source, CopySpan span);
  bool read_is_due() const;
  void note_read();
  void note_written(const std::vector<SlotState>& slots);
  job::Task<Result<void>> sync_datafiles(Limits limits);
  job::Task<Result<void>> sync_names(Limits limits);
  Result<void> told_of(std::uint64_t before);
  void leave(bool removed);
  void keep_unsynced(const std::vector<SlotState>& slots);
  void keep_synced();
  void keep_close(const wire::CloseRequest& request, std::uint64_t request_id);
  job::Task<Result<std::vector<SlotState>>> ask_soon(std::vector<std::uint32_t> slots);
  job::Task<void> learn_data();
  std::optional<wire::DataSummary> summary() const;

  Cluster& cluster_;
  Handle handle_;
  Rights rights_;
  bool by_user_;  // root's session has opened it for somebody else
  Layout layout_;
  Attributes attributes_;
  Capability capability_;
  std::unique_ptr<const Distribution> distribution_;
  wire::DataPath path_ = wire::DataPath::kAutomatic;
  Appends::AppendedPtr appended_;  // from the first append on

  std::vector<std::optional<wire::DatafileState>> states_;  // [slot] what this File knows of its datafile
  Incarnation meta_incarnation_;  // of the meta server that opened the file, or that has been seen to know it since
  bool targets_known_ = false;    // their servers are in the cluster's map: so they stay
  bool uncertain_ = false;  // something was tried whose effect is not known, or others may have written in between
  std::unique_ptr<Bypass> bypass_;
  bool wrote_by_itself_ = false;  // the datafiles' states are not known from replies
  UnsyncedFiles::FilePtr unsynced_;
  std::uint64_t losses_told_;  // to whom uses this open
  HandoverState::Open* record_ = nullptr;
  job::Semaphore renew_turn_;  // a second request for a capability would open the file twice

  bool reads_count_ = true;          // towards atime
  bool read_due_ = false;            // the next read moves atime
  std::optional<WallTime> read_at_;  // the last one that does
};

Rights rights_of(std::uint8_t open_flags);

/// Asks for an open. An older server is not told that a user opens it (kOpenByUser): `request` is as it was answered.
job::Task<Result<wire::OpenReply>> ask_to_open(Cluster& cluster, wire::OpenRequest& request, Limits limits);

/// Fills what a file whose size is not known says through its datafiles.
job::Task<Result<Attributes>> complete_attributes(Cluster& cluster, Attributes attributes, const Layout& layout,
                                                  Limits limits);

/// Size, allocation, mtime and change sum of all slots together; `states` holds each slot once.
wire::DataSummary summarize(const Distribution& distribution, std::span<const SlotState> states);

}  // namespace spate::client
