// SPDX-License-Identifier: Apache-2.0
// FileData: reads and writes of an open file. Divides them into requests, and repeats requests with a new capability
// where that is needed.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "client/bypass/bypass.h"
#include "client/cluster.h"
#include "client/data/data_map.h"
#include "client/data/transfer.h"
#include "client/file/open_capability.h"
#include "client/file/written_data.h"

namespace spate::client {

/// Whether the next read of a file with these attributes must set atime (Options::atime).
bool read_moves_atime(Cluster& cluster, const Attributes& attributes);

/// Reads, writes and truncations of one open file. File documents the methods. Life cycle: that of its File, which ends
/// all operations first. Any number of operations may run at once, on one executor. Not movable.
class FileData {
 public:
  /// These objects outlive the FileData.
  struct Params {
    Handle handle;
    const Layout& layout;
    const Distribution& distribution;
    const Attributes& attributes;  // as open returned them
    OpenCapability& capability;
    WrittenData& written;
  };
  FileData(Cluster& cluster, Params params);
  /// Lasts as long as a change of the data. While a change is under way this client asks the servers for the file's
  /// size, even if only this client writes the file (client/attributes/sole_writer_state.h).
  class Change {
   public:
    explicit Change(FileData& data);
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;
    ~Change();

   private:
    FileData& data_;
  };

  FileData(const FileData&) = delete;
  FileData& operator=(const FileData&) = delete;

  job::Task<Result<std::uint64_t>> read_list(const datatype::Description& what, std::span<const MutableByteView> memory,
                                             job::StopToken stop);
  /// `only_epoch` is for an append: the write ends with kSessionFenced instead of continuing in another epoch, in which
  /// other clients may have the right to append. 0: any epoch.
  job::Task<Result<void>> write_list(const datatype::Description& what, std::span<const ByteView> memory,
                                     job::StopToken stop, std::uint32_t only_epoch = 0);
  job::Task<Result<std::uint64_t>> read(std::uint64_t offset, MutableByteView memory, job::StopToken stop);
  job::Task<Result<void>> write(std::uint64_t offset, ByteView memory, job::StopToken stop);
  job::Task<Result<void>> punch(std::uint64_t offset, std::uint64_t size, Punch how);
  /// Writes what was gathered in the epoch `epoch`, the last of it at the time `written`. Other operations on the data
  /// begin when nothing gathered is left.
  job::Task<Result<void>> write_gathered(const datatype::Description& what, std::span<const ByteView> memory,
                                         std::uint32_t epoch, WallTime written, job::StopToken stop);

  /// As ask_datafiles(), with a valid capability.
  job::Task<Result<std::vector<SlotState>>> ask_slots(std::vector<std::uint32_t> slots, bool sync, Limits limits);
  /// As ask_slots(), but for a second at most, because a program waits for its open or close. Does not renew the
  /// capability, because the servers answer a question without a valid one.
  job::Task<Result<std::vector<SlotState>>> ask_soon(std::vector<std::uint32_t> slots);
  /// Learns what other opens have written, or what went past the servers. `writers`: opens for writing that have
  /// overlapped. False: this open cannot know it, or the io servers have not answered within a second.
  job::Task<bool> learn(std::uint32_t writers);
  /// False: others may have written.
  bool may_be_known() const;
  std::vector<std::uint32_t> all_slots() const;
  job::Task<Result<DataMap>> data_map(std::uint64_t offset, std::uint32_t max_ranges);
  job::Task<Result<std::uint64_t>> size_now(Limits limits);

  /// `capability`: the caller's own copy, because another
  /// operation may renew the file's capability in the meantime.
  TransferTarget target(const Capability& capability);
  void force_path(wire::DataPath path) { path_ = path; }
  Bypass& bypass() { return bypass_; }
  const Bypass& bypass() const { return bypass_; }

  /// O_NOATIME: reads from now on do not set atime.
  void forget_reads() { reads_count_ = false; }
  bool reads_count() const { return reads_count_; }
  /// Whether the next read sets atime.
  bool read_counts() const { return read_due_ && reads_count_; }
  /// Notes that data were read: now, or at a time that sets atime.
  void note_read();
  void note_read(WallTime at) { read_.note(at); }
  /// The time of the last read that sets atime.
  std::optional<WallTime> read_at() const { return read_.at(); }
  /// Notes that data were written.
  void note_written(const std::vector<SlotState>& slots);

  Cluster& cluster() { return cluster_; }
  Session& session() { return cluster_.session(); }
  Handle handle() const { return handle_; }
  const Layout& layout() const { return layout_; }
  const Distribution& distribution() const { return distribution_; }
  OpenCapability& capability() { return capability_; }
  WrittenData& written() { return written_; }

 private:
  enum class Kind : std::uint8_t { kRead, kWrite, kPunch };
  struct Operation;
  job::Task<Result<std::uint64_t>> run(Operation operation);
  job::Task<Result<TransferResult>> run_part(Operation& operation, const datatype::Description& part);
  job::Task<Result<TransferResult>> transfer(const TransferTarget& target, Operation& operation,
                                             const datatype::Description& part, Limits limits);

  Cluster& cluster_;
  const Handle handle_;
  const Layout& layout_;
  const Distribution& distribution_;
  OpenCapability& capability_;
  WrittenData& written_;
  Bypass bypass_;
  wire::DataPath path_ = wire::DataPath::kAutomatic;
  bool reads_count_ = true;  // reads set atime
  bool read_due_ = false;    // the next read sets atime
  ReadTimes::Open read_;     // the last read that sets atime
};

}  // namespace spate::client
