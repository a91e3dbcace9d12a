// SPDX-License-Identifier: Apache-2.0
// LeasePage: the page of one bypass lease (model/lease_words.h), in a file of the target's folder, so that the process
// that comes after a killed one still reaches the holders. docs/disk-datafiles.md, "Leases".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/shared_page.h"
#include "base/unique_fd.h"
#include "model/lease_words.h"

namespace spate::trove {

struct LeaseTitle {
  DatafileId datafile;
  ClientId client;
  std::uint32_t epoch = 0;
  bool writable = false;
};

/// Its file is removed with it, unless keep() was called. One thread.
class LeasePage {
 public:
  /// Makes the file in `folder` (a target's). May block briefly.
  static Result<std::unique_ptr<LeasePage>> make(int folder, const LeaseTitle& title);
  /// The pages that an earlier process left. Those of another boot, and what is no page, are removed: their holders are
  /// gone.
  static Result<std::vector<std::unique_ptr<LeasePage>>> left_over(int folder);
  LeasePage(const LeasePage&) = delete;
  LeasePage& operator=(const LeasePage&) = delete;
  ~LeasePage();

  LeaseWords& words() const { return *reinterpret_cast<LeaseWords*>(page_.data()); }
  /// As it was made or found: what the holder may have written over it since does not count.
  DatafileId datafile() const { return datafile_; }
  bool writable() const { return writable_; }
  /// To be passed to the holder; read-only unless it may write.
  Result<UniqueFd> descriptor() const;
  /// Whoever opens the target next shall find it.
  void keep() { name_.clear(); }

 private:
  LeasePage(int folder, std::string name, SharedPage page);
  static Result<std::unique_ptr<LeasePage>> adopt(int folder, const std::string& name);
  int folder_;  // the sub-folder's; a descriptor of its own
  std::string name_;
  SharedPage page_;
  DatafileId datafile_;
  bool writable_ = false;
};

}  // namespace spate::trove
