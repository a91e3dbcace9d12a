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
#include "client/file/file_gather.h"
#include "client/file/meta_record.h"
#include "client/file/open_capability.h"
#include "client/file/written_data.h"

namespace spate::client {

/// The options of a close: times and mode that the same request sets (cp -p).
struct CloseOptions {
  /// A writer first asks the io servers, for a second at most, for datafiles that it does not know. The meta server
  /// then learns the size from the close, if nobody else writes, and need not ask the io servers itself.
  bool learn_data = false;
  /// If not empty, it is called just before the close is sent, when nothing is written through this open any more. It
  /// returns how many of this client's opens for writing have overlapped, this one included, or 0 while one of the
  /// others continues. If several have overlapped, the close asks the io servers for all datafiles, and reports no size
  /// if they do not answer.
  UniqueFunction<std::uint32_t()> last_of_writers;
  /// Nobody learns the result of the close. So a write that may be lost is left for the next open to report.
  bool unheard = false;
  std::optional<WallTime> atime;
  std::optional<WallTime> mtime;
  std::optional<std::uint32_t> mode;
};

/// One open of one file. Any number of operations may run at once, on one executor. A completed write is seen by every
/// later read of any client.
///
/// Life cycle: made by Client::open or create -> operations -> close() awaited -> destroyed. All operations have ended
/// before close(), and the cluster outlives the object. The object may be destroyed without close(); then the open ends
/// with the session, and the servers recall what they have lent to it.
class File {
 public:
  /// `open_flags`: the wire::OpenFlags of the open. The File keeps those flags that a later open must repeat.
  File(Cluster& cluster, wire::OpenReply reply, std::uint8_t open_flags);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// From now on `record` has what the next process must know about this file (client/session/handover_state.h).
  /// `record` outlives this object.
  void keep_in(HandoverState::Open& record);
  /// Takes over a file that another process has opened and that `record` describes. Includes keep_in().
  void inherit(HandoverState::Open& record);

  /// The server has just judged an open with these flags, so the last close may leave the file open
  /// (client/cached_opens.h).
  void keep_when_closed(std::uint8_t open_flags);

  /// This process ends and another one continues. Gives back to the servers what they have lent to this process.
  job::Task<void> hand_over(Limits limits);

  /// The epoch of the session in which the file is open. If the open request was resent, this epoch may have ended
  /// already. Then the next operation opens the file again, and close() has nothing to close (kSessionFenced).
  std::uint32_t session_epoch() const { return capability_.now().session_epoch; }
  Handle handle() const { return handle_; }
  const Layout& layout() const { return layout_; }
  /// The attributes that open returned.
  const Attributes& attributes() const { return attributes_; }
  Rights rights() const { return capability_.rights(); }
  /// Root's session has opened the file for another user. So the servers clear set-uid and set-gid when it is written.
  bool by_user() const { return capability_.by_user(); }
  job::Executor& executor() { return cluster_.executor(); }

  /// Reads at most memory.size() bytes from `offset`; fewer at the end of the file, 0 beyond it. Holes read as zeros.
  job::Task<Result<std::uint64_t>> read(std::uint64_t offset, MutableByteView memory, job::StopToken stop = {}) {
    return data_.read(offset, memory, stop);
  }
  /// Writes all of `memory` at `offset`. After a failure a part may have been written.
  job::Task<Result<void>> write(std::uint64_t offset, ByteView memory, job::StopToken stop = {}) {
    return data_.write(offset, memory, stop);
  }
  /// For a write that may be gathered (client/file/file_gather.h), and to send what was. Null: this open has not made
  /// the file, and writes through it go to the servers at once.
  FileGather* gathering() { return gather_.get(); }
  /// Sends what was gathered through this open before there was this object (FileGather::take_over()). After a failure
  /// the next sync or close fails.
  job::Task<void> take_over(GatherMemory::Piece& piece);
  /// As read() and write(), for any shape of file and memory (list and datatype I/O), with one request and one reply
  /// for each server.
  job::Task<Result<std::uint64_t>> read_list(const datatype::Description& what, std::span<const MutableByteView> memory,
                                             job::StopToken stop = {}) {
    return data_.read_list(what, memory, stop);
  }
  job::Task<Result<void>> write_list(const datatype::Description& what, std::span<const ByteView> memory,
                                     job::StopToken stop = {}) {
    return data_.write_list(what, memory, stop);
  }
  /// Writes all of `memory` at the end of the file. Appends of all clients take place one after another. Returns the
  /// offset of the data. After a failure a part of the data may have been written.
  /// `gather`: gathering(), if the append may be gathered; then `memory` has one view.
  job::Task<Result<std::uint64_t>> append(std::span<const ByteView> memory, job::StopToken stop = {},
                                          FileGather* gather = nullptr) {
    return append_.append(memory, stop, gather);
  }
  /// Makes the file at least so large; new bytes are zeros. Keeps what others append in the meantime.
  job::Task<Result<void>> extend_to(std::uint64_t size) { return append_.extend_to(size); }
  /// punch() zeros a range (the size stays); allocate() reserves its space.
  job::Task<Result<void>> punch(std::uint64_t offset, std::uint64_t size) {
    return data_.punch(offset, size, Punch::kZeros);
  }
  job::Task<Result<void>> allocate(std::uint64_t offset, std::uint64_t size) {
    return data_.punch(offset, size, Punch::kSpace);
  }
  job::Task<Result<void>> truncate(std::uint64_t size);

  /// The size, and the data and holes from `offset` on, by at most `max_ranges` (1 to 256) ranges of each datafile.
  job::Task<Result<DataMap>> data_map(std::uint64_t offset, std::uint32_t max_ranges) {
    return data_.data_map(offset, max_ranges);
  }
  /// Copies from `source`, at most to its end; holes stay holes. `source` may be this file if the ranges do not
  /// overlap. Returns the number of bytes copied. The io servers copy by themselves if the datafiles are on the same
  /// servers; else the data goes through this client. After a failure a part may have been copied. Needs the right to
  /// read `source` and to write this file.
  job::Task<Result<std::uint64_t>> copy_from(File& source, CopySpan span);

  /// The present attributes. If the file is being written, size and times come from the datafiles.
  job::Task<Result<Attributes>> stat();
  /// The sum of the change counters of all datafiles; a failure if the io servers do not answer within a second. The
  /// sum differs after any change of the file's data by anybody.
  job::Task<Result<std::uint64_t>> change_sum_now();
  /// Whether a change through this open that has failed may still take effect.
  bool may_change_later() const { return written_.uncertain(); }
  /// Everything that this client has written and truncated before, through any open of the file, and the file's entry
  /// and inode, then survive a crash of any machine. kLostWrite: a server restarted before it synced an earlier write,
  /// so the write may be gone; or the file itself is gone, because the meta server's machine went down before the
  /// file's creation was durable. A lost write is reported once to each open that existed at that time and to all syncs
  /// that overlap. If there was no open, it is reported to the next one.
  job::Task<Result<void>> sync();
  /// kLostWrite, once, if this client knows that a write may be lost. Asks no server.
  Result<void> check_lost();
  /// As check_lost(), and each time if the file itself is gone. If the meta server has restarted, this asks it, for a
  /// second at most.
  job::Task<Result<void>> check_lost_file();
  /// O_NOATIME: reads through this open do not set atime.
  void forget_reads() { data_.forget_reads(); }
  /// Whether the next read sets atime.
  bool read_counts() const { return data_.read_counts(); }

  /// Ends the open. The object must not be used afterwards, whatever the result is. The request of a reader also has
  /// the time of its last read, if that must set atime (Options::atime). kLostWrite as in sync(). `on_ended`: as in
  /// Cluster::close(), but not called for an open that the server has not counted. kSessionFenced: the open has already
  /// ended with its session.
  job::Task<Result<Attributes>> close(CloseOptions options = {}, UniqueFunction<void()> on_ended = {});

  /// Ends the writing, and returns what this open has written, as a close tells the meta server. Nothing: it does not
  /// know, and the io servers do not answer within a second. The caller knows that nobody else has written.
  job::Task<std::optional<wire::DataSummary>> written();
  /// Ends this object without a request: somebody else closes the open. Call it before the object is destroyed.
  job::Task<void> leave_open();

  /// The path that a read or write of this range would take, for each slot.
  job::Task<Result<std::vector<SlotPath>>> explain(std::uint64_t offset, std::uint64_t size, bool is_write);
  /// For measurements: forces a data path. With kBypass, a transfer fails if this client cannot do all of it by itself.
  void force_path(wire::DataPath path) { data_.force_path(path); }
  /// How many bytes this client has read and written without the servers.
  std::uint64_t bypassed_bytes() const { return data_.bypass().bytes_moved(); }

 private:
  job::Task<Result<void>> sync_datafiles(Limits limits);
  std::optional<Attributes> close_locally(const wire::CloseRequest& request, std::uint64_t request_id,
                                          UniqueFunction<void()>& on_ended);

  Cluster& cluster_;
  const Handle handle_;
  const Layout layout_;
  const Attributes attributes_;
  const std::unique_ptr<const Distribution> distribution_;
  OpenCapability capability_;
  WrittenData written_;
  FileData data_;
  FileAppend append_;
  std::shared_ptr<FileGather> gather_;  // null: this open may gather nothing. Its sends may end after this object
  std::uint8_t kept_flags_ = 0;         // the flags that the server has judged, if the open may be kept
  MetaRecord meta_record_;
};

/// Fills in from the datafiles the size and times of a file whose size the meta server does not know.
job::Task<Result<Attributes>> complete_attributes(Cluster& cluster, Attributes attributes, const Layout& layout,
                                                  Limits limits);

}  // namespace spate::client
