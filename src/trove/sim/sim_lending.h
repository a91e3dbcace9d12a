// SPDX-License-Identifier: Apache-2.0
// SimLending: the kernel's part in bypass leases on a simulated machine: the leases' pages, and descriptors in flight
// between processes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "trove/bytestream.h"
#include "trove/sim/sim_file.h"

namespace spate::trove {

/// The memory that a server and a holder share.
struct SimPage {
  LeaseWords words;
};

/// A datafile that a lease holder has open: the local file at the time of the grant, even if another file replaces it
/// later.
struct SimLentFile {
  std::shared_ptr<SimFile> file;
  DatafileId id;
  LendAccess access = LendAccess::kRead;
};

/// Belongs to one disk. Not thread-safe. `alive` tells whether the process that asked still lives. If it does not, its
/// later stores to a page go to a private copy, because a dead process changes nothing.
class SimLending {
 public:
  using Alive = std::shared_ptr<const bool>;

  /// Its descriptors are first .. first + count - 1.
  SimLending(int first, int count) : first_(first), count_(count) {}
  SimLending(const SimLending&) = delete;
  SimLending& operator=(const SimLending&) = delete;

  Result<std::unique_ptr<LeasePage>> make_page(const LeaseTitle& title, const Alive& alive);
  std::vector<std::unique_ptr<LeasePage>> left_pages(const Alive& alive);
  /// Null: no descriptor is free.
  std::shared_ptr<const OpenDatafile> lend(SimLentFile file);

  /// Passes the descriptor of a page, or a lent descriptor: returns a copy that stays until it is taken.
  /// kBadDescriptor: it is neither.
  Result<int> pass(int fd);
  /// The page that was passed under this number; null if there is none.
  std::shared_ptr<SimPage> take_page(int fd);
  std::optional<SimLentFile> take_file(int fd);

  /// The machine crashes: all leases end.
  void crash();

 private:
  struct Passed {
    std::shared_ptr<SimPage> page;
    std::optional<SimLentFile> file;
  };
  std::optional<int> free_number();

  const int first_;
  const int count_;
  std::uint32_t next_ = 0;
  std::map<int, std::shared_ptr<SimPage>> pages_;  // of the machine, by the number that passes them
  std::map<int, std::weak_ptr<const SimLentFile>> lent_;
  std::map<int, Passed> passed_;
};

}  // namespace spate::trove
