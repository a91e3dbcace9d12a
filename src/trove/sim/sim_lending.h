// SPDX-License-Identifier: Apache-2.0
// SimLending: the part of a simulated machine's kernel in bypass leases: their pages, and descriptors in flight between
// processes.
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

/// A datafile that a holder has open: the local file at the time of the grant, whatever replaces it later.
struct SimLentFile {
  std::shared_ptr<SimFile> file;
  DatafileId id;
  Lend access = Lend::kRead;
};

/// One disk's. One thread. `alive` tells whether the process that asked is still there: what it does afterwards to a
/// page is done to a copy of its own, as a killed process does nothing any more.
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

  /// A copy of the descriptor of a page, or of what was lent, that stays until it is taken. kBadDescriptor: neither.
  Result<int> pass(int fd);
  /// What was passed under this number; null, or nothing, for another one.
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
