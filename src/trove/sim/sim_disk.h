// SPDX-License-Identifier: Apache-2.0
// SimDisk: a simulated disk with its machine's page cache. It outlives the processes that use it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "trove/sim/sim_faults.h"
#include "trove/sim/sim_file.h"
#include "trove/sim/sim_lending.h"

namespace spate::trove {

/// The speed and the size of a disk.
struct SimDiskModel {
  Duration read_latency = std::chrono::microseconds(80);
  Duration write_latency = std::chrono::microseconds(20);
  Duration sync_latency = std::chrono::microseconds(500);
  Duration memory_latency = std::chrono::microseconds(1);  // what touches the page cache or an inode only
  std::uint64_t bytes_per_second = 2'000'000'000;          // of the device; 1 .. 10^10
  std::uint64_t memory_bytes_per_second = 8'000'000'000;   // of the page cache; 1 .. 10^10
  unsigned parallel = 8;                                   // operations the device works on side by side; >= 1
  Duration jitter{0};                                      // added to each operation, uniform in [0, jitter]
  /// Reads find their data in the page cache, and writes leave it there until a sync. Otherwise both go to the device.
  bool page_cache = true;
  /// How many of 1000 operations on data in memory complete in their post.
  std::uint32_t immediate_per_mille = 300;
  std::uint64_t capacity_bytes = std::uint64_t{1} << 40U;
  std::uint64_t max_datafile_bytes = std::uint64_t{1} << 44U;  // as ext4 has it: a larger one is kFileTooBig
  /// Alignment of requests past the page cache; 0: there are none. They take the device's time. After a crash, what
  /// they wrote may be there or not, like data that no sync has covered.
  std::uint32_t direct_alignment = 0;
};

struct SimDiskStatistics {
  std::uint64_t operations = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t syncs = 0;
  std::uint64_t failed_syncs = 0;
  std::uint64_t crashes = 0;
};

/// Not thread-safe; deterministic from `random`. Operations take effect at the instant of their completion. When a
/// process dies, `random` decides whether its operations in flight have happened; a write may have happened in part.
class SimDisk {
 public:
  /// Descriptors of SimDisks lie in [kFirstDescriptor, 2^31); 2^16 for each disk.
  static constexpr int kFirstDescriptor = 1 << 30;
  static constexpr std::uint32_t kMaxNumber = 8191;

  /// `number` (0 .. kMaxNumber) tells its descriptors from those of other disks of the simulation.
  SimDisk(const Clock& clock, Random& random, std::uint32_t number, SimDiskModel model = {});
  SimDisk(const SimDisk&) = delete;
  SimDisk& operator=(const SimDisk&) = delete;

  // Time. never() when nothing is in flight.
  MonoTime next_event_time() const;
  /// Completes what is due at `when`, in order; the clock should stand there. Testing a store does the same.
  void run_until(MonoTime when);

  // Faults, effective at once.
  /// The machine crashes: unsynced data is lost, kept or torn. Every store on it must have been destroyed.
  void crash();
  /// Operations that fail from now on. A write may do a part before it fails. A sync loses data by errors of write-back
  /// (SimFile::fail_write_back), and the next sync does not report it.
  SimFaults& faults() { return faults_; }
  void set_capacity(std::uint64_t bytes) { model_.capacity_bytes = bytes; }
  void set_model(const SimDiskModel& model) { model_ = model; }

  /// Does this descriptor belong to this disk?
  bool owns(int fd) const;
  /// Reads an open datafile, as seen now: at most out.size() bytes; 0 at its end. kBadDescriptor: not open (any more).
  /// Fails as reads do, as if the pages had left the page cache.
  Result<std::size_t> read_file(int fd, std::uint64_t offset, MutableByteView out);

  /// The content of a datafile as seen now; nothing if it was never written, or was removed.
  std::optional<Bytes> content(const DatafileId& id) const;

  /// Leases on its datafiles, and the descriptors that are passed for them.
  SimLending& lending() { return lending_; }
  /// A lease holder's own write, at this instant. It may write to a file that is no longer a datafile. Returns the
  /// bytes written, fewer on a full disk; kNoSpace if none fit.
  Result<std::size_t> write_lent(const SimLentFile& lent, std::uint64_t offset, ByteView data);

  const SimDiskStatistics& statistics() const { return statistics_; }

  // For SimBytestreams.
  using ProcessId = std::uint64_t;
  ProcessId attach();
  void detach(ProcessId process);
  bool post(ProcessId process, const BytestreamRequest& request, void* user, BytestreamCompletion& done);
  std::size_t test(ProcessId process, std::span<BytestreamCompletion> out);
  std::vector<DatafileId> list(const DatafileId& after, std::size_t max) const;
  SpaceInfo space() const;
  DirectAbility direct() const;

 private:
  using FilePtr = std::shared_ptr<SimFile>;
  struct Operation {
    ProcessId process = 0;
    BytestreamRequest request;  // its spans name the vectors
    std::vector<Extent> extents;
    std::vector<MutableByteView> memory;
    Bytes data;  // of a write: the process may be gone when it happens
    BytestreamCompletion done;
  };
  using OperationPtr = std::unique_ptr<Operation>;
  struct Due {
    MonoTime when;
    std::uint64_t order;
    friend auto operator<=>(const Due&, const Due&) = default;
  };

  static OperationPtr make_operation(const BytestreamRequest& request, void* user);
  MonoTime schedule(const Operation& operation);
  bool in_memory(const Operation& operation) const;
  FilePtr find(const DatafileId& id) const;
  std::uint64_t pages_free() const;

  void carry_out(Operation& operation);
  void carry_out_on(SimFile& file, Operation& operation);
  void read(const SimFile& file, Operation& operation);
  Errc write(SimFile& file, Operation& operation, std::uint64_t limit);
  Errc allocate(SimFile& file, const Operation& operation);
  Errc copy(SimFile& file, const Operation& operation);
  void replace(const DatafileId& id);
  void lend(const FilePtr& file, Operation& operation);
  Errc write_piece(SimFile& file, std::uint64_t offset, ByteView piece);
  void cut(SimFile& file, const BytestreamRequest& request);
  void remove(const DatafileId& id);
  void sync(const DatafileId& id);
  void fail(const Operation& operation);
  void open(const FilePtr& file, Operation& operation);
  void carry_out_in_part(Operation& operation);

  const Clock& clock_;
  Random& random_;
  const std::uint32_t number_;
  SimDiskModel model_;
  SimDiskStatistics statistics_;

  std::map<DatafileId, FilePtr> files_;
  std::map<DatafileId, FilePtr> files_on_disk_;  // names that a sync has made durable
  std::uint64_t used_bytes_ = 0;                 // by files_
  std::map<Due, OperationPtr> in_flight_;
  std::uint64_t next_order_ = 0;
  std::vector<MonoTime> channel_free_;
  MonoTime transfer_free_;
  std::map<ProcessId, std::deque<BytestreamCompletion>> ended_;  // by attached process
  ProcessId next_process_ = 1;
  SimFaults faults_;
  std::map<int, std::weak_ptr<SimFile>> open_files_;
  std::uint32_t next_descriptor_ = 0;
  SimLending lending_;
};

}  // namespace spate::trove
