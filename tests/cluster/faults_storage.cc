// SPDX-License-Identifier: Apache-2.0
// Faults of storage: of the disks with the data, and of the stores with the records.
#include <array>

#include "tests/cluster/faults.h"

namespace spate::cluster {
namespace {

/// How long clients write before syncs fail, and how long syncs fail.
constexpr Duration kWritten = std::chrono::milliseconds(500);
constexpr Duration kSynced = std::chrono::milliseconds(1000);

}  // namespace

void FaultDriver::strike_storage(FaultKind kind, const Target& target) {
  if (target.server == kMetaServer || random_.chance(1, 3)) {
    hurt_records(kind, target);
  } else {
    hurt_disks(kind, target);
  }
}

void FaultDriver::hurt_disks(FaultKind kind, const Target& target) {
  using trove::BytestreamOp;
  static constexpr std::array kDiskOps = {BytestreamOp::kRead,   BytestreamOp::kWrite, BytestreamOp::kTruncate,
                                          BytestreamOp::kPunch,  BytestreamOp::kSync,  BytestreamOp::kStat,
                                          BytestreamOp::kRemove, BytestreamOp::kOpen,  BytestreamOp::kMakeResident};
  ServerDisks& server_disks = scene_.world.disks(target.server);
  for (auto& disk : server_disks.targets) {
    if (kind == FaultKind::kDiskFull) {
      disk->set_capacity(4096);
      continue;
    }
    if (random_.chance(1, 4)) {  // no end is in sight for the clients
      static constexpr std::array kRefusals = {Errc::kIoError, Errc::kNoSpace, Errc::kReadOnly};
      disk->faults().refuse(kDiskOps.at(random_.below(kDiskOps.size())), kRefusals.at(random_.below(kRefusals.size())));
      continue;
    }
    const std::uint64_t count = 1 + random_.below(3);
    for (std::uint64_t i = 0; i < count; ++i) {
      disk->faults().inject(kDiskOps.at(random_.below(kDiskOps.size())), 1 + random_.below(3), Errc::kIoError);
    }
  }
  keep_in_force(kind, target, some_span(), [this, &server_disks] {
    for (auto& disk : server_disks.targets) {
      disk->set_capacity(scene_.disk_bytes);
      disk->faults().clear();
    }
  });
}

/// After a while in which clients write, the next sync of each datafile finds that write-back has failed; later ones do
/// not. Sometimes the power fails later, which shows what was lost.
void FaultDriver::fail_syncs(const Target& target) {
  const MonoTime now = scene_.world.now();
  scene_.shared_loss = {target.server, 0, now + kWritten, now + kWritten + kSynced};
  ServerDisks& server_disks = scene_.world.disks(target.server);
  scene_.world.at(scene_.shared_loss.written, [this, &server_disks] {
    if (ending_) return;
    for (auto& disk : server_disks.targets) {
      const std::uint64_t count = 1 + random_.below(3);
      for (std::uint64_t nth = 1; nth <= count; ++nth)
        disk->faults().inject(trove::BytestreamOp::kSync, nth, Errc::kIoError);
    }
  });
  keep_in_force(FaultKind::kFailedSync, target, kWritten + kSynced, [this, &server_disks, server = target.server] {
    for (auto& disk : server_disks.targets) disk->faults().clear();
    if (!ending_) crash_soon(server);
  });
}

void FaultDriver::hurt_records(FaultKind kind, const Target& target) {
  trove::SimKeyvalFaults& faults = scene_.world.disks(target.server).records.faults;
  const bool of_meta = target.server == kMetaServer;
  bool needs_restart = false;
  if (kind == FaultKind::kDiskFull) {
    faults.full = true;
  } else {
    switch (random_.below(3)) {
      case 0: faults.read_error_per_mille = 300; break;
      case 1: faults.commit_error_per_mille = 500; break;
      default: faults.sync_error_per_mille = 500; break;
    }
    needs_restart = faults.commit_error_per_mille != 0 || faults.sync_error_per_mille != 0;
  }
  if (of_meta) ++hurt_records_;
  meta_healthy_ = meta_healthy_ && !of_meta;
  keep_in_force(kind, target, some_span(), [this, server = target.server, needs_restart, of_meta] {
    scene_.world.disks(server).records.faults = {};
    if (of_meta) --hurt_records_;
    // A store that has failed stays unusable until its process is restarted.
    if (needs_restart) strike_server(server, bmi::sim::Death::kProcess);
  });
}

}  // namespace spate::cluster
