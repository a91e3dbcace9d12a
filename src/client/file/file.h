// SPDX-License-Identifier: Apache-2.0
// File: an open file.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/cluster.h"
#include "client/file/explain.h"
#include "client/file/file_append.h"
#include "client/file/file_copy.h"
#include "client/file/file_data.h"
#include "client/file/open_capability.h"
#include "client/file/written_data.h"

namespace spate::client {

/// How a close ends: times and mode to be set in the same request (cp -p).
struct CloseOptions {
  /// A writer asks the io servers, for a second at most, for the datafiles that it does not know: then the meta server
  /// learns the size from the close, if nobody else writes, and need not ask them itself.
  bool learn_data = false;
  /// When given: called once nothing is written through this open any more, just before the close is sent. Says how
  /// many of this client's opens for writing have overlapped, this one included, if nothing is written through any of
  /// them any more; 0 while others go on. Of several that end together, the io servers are asked for all datafiles; if
  /// they do not answer, the close tells no size.
  UniqueFunction<std::uint32_t()> last_of_writers;
  /// Nobody hears what the close returns: a write that may be lost is left to be told to the next open.
  bool unheard = false;
  std::optional<WallTime> atime;
  std::optional<WallTime> mtime;
  std::optional<std::uint32_t> mode;
};

/// One open of one file. Reads and writes may run at the same time, any number of them; a completed write is seen by
/// every later read of any client. Life cycle: made by Client::open or create -> close() awaited -> destroyed. One
/// executor.
class File {
 public:
  /// `open_flags`: as it was opened, wire::OpenFlags; what of them a later open must repeat is kept.
  File(Cluster& cluster, wire::OpenReply reply, std::uint8_t open_flags);
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// From now on the next process finds in `record` what it must know of this file (client/session/handover_state.h);
  /// outlives it.
  void keep_in(HandoverState::Open& record);
  /// This is a file that another process has opened, of which `record` tells; keep_in() included.
  void inherit(HandoverState::Open& record);

  /// The server has just judged an open with these flags: the last close may keep it (client/file/kept_opens.h).
  void keep_when_closed(std::uint8_t open_flags);

  /// The process ends and another goes on: what servers lend to this one is given back.
  job::Task<void> hand_over(Limits limits);

  /// The epoch of the session in which the file is open. After a resent open this epoch may have ended already. Then
  /// the next operation opens the file again, and close() has nothing to close (kSessionFenced).
  std::uint32_t session_epoch() const { return capability_.now().session_epoch; }
  Handle handle() const { return handle_; }
  const Layout& layout() const { return layout_; }
  /// As open returned them.
  const Attributes& attributes() const { return attributes_; }
  Rights rights() const { return capability_.rights(); }
  job::Executor& executor() { return cluster_.executor(); }

  /// At most memory.size() bytes from `offset`; fewer at the end of the file, 0 beyond it. Holes read as zeros.
  job::Task<Result<std::uint64_t>> read(std::uint64_t offset, MutableByteView memory, job::StopToken stop = {}) {
    return data_.read(offset, memory, stop);
  }
  /// All of `memory` at `offset`. After a failure part of it may have been written.
  job::Task<Result<void>> write(std::uint64_t offset, ByteView memory, job::StopToken stop = {}) {
    return data_.write(offset, memory, stop);
  }
  /// The same for any shape of file and memory (list and datatype I/O): one request and one reply a server.
  job::Task<Result<std::uint64_t>> read_list(const datatype::Description& what, std::span<const MutableByteView> memory,
                                             job::StopToken stop = {}) {
    return data_.read_list(what, memory, stop);
  }
  job::Task<Result<void>> write_list(const datatype::Description& what, std::span<const ByteView> memory,
                                     job::StopToken stop = {}) {
    return data_.write_list(what, memory, stop);
  }
  /// All of `memory` at the end of the file, wherever that is by then: appends of all clients follow one another. Where
  /// it was put. After a failure part of it may have been written.
  job::Task<Result<std::uint64_t>> append(std::span<const ByteView> memory, job::StopToken stop = {}) {
    return append_.append(memory, stop);
  }
  /// The file is at least so large from now on; what is new is zeros. Not below what others append meanwhile.
  job::Task<Result<void>> extend_to(std::uint64_t size) { return append_.extend_to(size); }
  /// Zeros a range (the size stays) / reserves its space.
  job::Task<Result<void>> punch(std::uint64_t offset, std::uint64_t size) {
    return data_.punch(offset, size, Punch::kZeros);
  }
  job::Task<Result<void>> allocate(std::uint64_t offset, std::uint64_t size) {
    return data_.punch(offset, size, Punch::kSpace);
  }
  job::Task<Result<void>> truncate(std::uint64_t size);

  /// Where data and holes are from `offset` on, as far as `max_ranges` ranges of each datafile tell (1..256); and the
  /// size.
  job::Task<Result<DataMap>> data_map(std::uint64_t offset, std::uint32_t max_ranges) {
    return data_.data_map(offset, max_ranges);
  }
  /// Copies from `source` (which may be this file, without an overlap), holes as holes, at most to its end: the bytes
  /// copied. By the io servers alone where the datafiles lie side by side, else through this client. After a failure
  /// part of it may have been done. Needs the right to read there and to write here.
  job::Task<Result<std::uint64_t>> copy_from(File& source, CopySpan span);

  /// Attributes with size and times as they are now, by the datafiles if they are being written.
  job::Task<Result<Attributes>> stat();
  /// The sum of the change counters of all datafiles, as the io servers tell it within a second: it is another one
  /// after any change of the file's data by anybody.
  job::Task<Result<std::uint64_t>> change_sum_now();
  /// A change through this open may come into effect later than it was said to have failed.
  bool may_change_later() const { return written_.uncertain(); }
  /// Everything that this client has written and cut before, through whichever open of the file, and the file's entry
  /// and inode, survive a crash of any machine. kLostWrite when a server restarted before an earlier write was synced:
  /// that write may be gone. It is told once to each open that there was then, to all syncs that overlap, and if there
  /// was none to the next one. Also when the file itself is gone, because the meta server's machine went down before
  /// its creation was durable.
  job::Task<Result<void>> sync();
  /// kLostWrite, once, when this client has heard that a write may be lost. Asks no server.
  Result<void> check_lost();
  /// O_NOATIME: what is read through this open is not told of.
  void forget_reads() { data_.forget_reads(); }
  /// The next read moves atime.
  bool read_counts() const { return data_.read_counts(); }

  /// Ends the open; the object is of no more use, whatever comes out. A reader tells in the same request when it read
  /// last, where that is due (Options::atime). kLostWrite as in sync().
  /// `on_ended`: as Cluster::close().
  job::Task<Result<Attributes>> close(CloseOptions options = {}, UniqueFunction<void()> on_ended = {});

  /// Which path a read or write of this range would take, slot by slot.
  job::Task<Result<std::vector<SlotPath>>> explain(std::uint64_t offset, std::uint64_t size, bool is_write);
  /// Measurement: forces a data path. kBypass: what cannot be done by this client itself fails.
  void force_path(wire::DataPath path) { data_.force_path(path); }
  /// What this client has read and written past the servers, bytes.
  std::uint64_t bypassed_bytes() const { return data_.bypass().bytes_moved(); }

 private:
  job::Task<Result<void>> sync_datafiles(Limits limits);
  job::Task<Result<void>> sync_names(Limits limits);
  job::Task<bool> learn_data(std::uint32_t writers);
  bool knows_data() const;
  bool kept_open(const wire::CloseRequest& request, std::uint64_t request_id, UniqueFunction<void()>& on_ended);

  Cluster& cluster_;
  const Handle handle_;
  const Layout layout_;
  const Attributes attributes_;
  const std::unique_ptr<const Distribution> distribution_;
  OpenCapability capability_;
  WrittenData written_;
  FileData data_;
  FileAppend append_;
  std::uint8_t kept_flags_ = 0;   // what the server has judged, if the open may be kept
  Incarnation meta_incarnation_;  // of the meta server that opened the file, or that has been seen to know it since
};

/// Fills what a file whose size is not known says through its datafiles.
job::Task<Result<Attributes>> complete_attributes(Cluster& cluster, Attributes attributes, const Layout& layout,
                                                  Limits limits);

}  // namespace spate::client
