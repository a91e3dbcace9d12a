// SPDX-License-Identifier: Apache-2.0
// SizeCheck: checks that the datafile with a file's last byte ends there.
#pragma once

#include <map>
#include <vector>

#include "fsck/repair_queue.h"

namespace spate::fsck {

/// Finds files whose last byte is missing, or whose datafile is longer: their size differs from their inode.
/// (DatafileCheck finds other datafiles that are too long.) One pass. Pinned. It keeps a bounded number of files.
class SizeCheck {
 public:
  SizeCheck(Servers& servers, RepairQueue& queue) : servers_(servers), queue_(queue) {}
  SizeCheck(const SizeCheck&) = delete;
  SizeCheck& operator=(const SizeCheck&) = delete;

  void add(const wire::InodeFact& inode);
  /// Asks the io servers for which many files are waiting.
  job::Task<Result<void>> ask_when_many();
  job::Task<Result<void>> ask_all();

 private:
  struct Expected {
    Handle handle;
    std::uint64_t version = 0;
    std::uint64_t size = 0;
    wire::SlotRef slot;
    std::uint64_t bytes = 0;
  };
  job::Task<void> ask(ServerId server, std::vector<Expected> files);
  void compare(const Expected& expected, const wire::DatafilePresence& presence);

  Servers& servers_;
  RepairQueue& queue_;
  std::map<ServerId, std::vector<Expected>> waiting_;
};

}  // namespace spate::fsck
