// SPDX-License-Identifier: Apache-2.0
// LeasePage: the page of one bypass lease (model/lease_words.h). FolderLeasePage keeps it in a file of the target's
// folder, so that the successor of a killed process still reaches the holders. docs/disk-datafiles.md, "Leases".
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
  std::uint64_t counter = 0;  // LeaseWords::counter
};

/// The server's end of one bypass lease: a page of memory that it shares with the holder.
///
/// Life cycle: made, or found after a restart -> its descriptor is passed to the holder -> the server sets `state` in
/// words() to recall or to fence the lease -> destroyed, when no operation of the holder has an effect any more. The
/// destructor removes the page from the target, unless keep() was called. It does not tell the holder: a page that is
/// destroyed without a recall leaves a holder that believes in its lease.
///
/// Threads: one on the server's side. The words are atomic, because the holder changes them at any time. The holder is
/// not trusted: only `state` and the members below hold what the server wrote.
class LeasePage {
 public:
  LeasePage(const LeasePage&) = delete;
  LeasePage& operator=(const LeasePage&) = delete;
  virtual ~LeasePage() = default;

  virtual LeaseWords& words() const = 0;
  /// The datafile as it was when the page was made or found. The holder may have overwritten this in the page; that has
  /// no effect here.
  DatafileId datafile() const { return datafile_; }
  bool writable() const { return writable_; }
  /// The descriptor to pass to the holder; read-only unless the holder may write.
  virtual Result<UniqueFd> descriptor() const = 0;
  /// Leaves the page for the next process that opens the target.
  virtual void keep() = 0;

 protected:
  LeasePage(DatafileId datafile, bool writable) : datafile_(datafile), writable_(writable) {}

 private:
  const DatafileId datafile_;
  const bool writable_;
};

/// A file of a target's folder, removed with it.
class FolderLeasePage final : public LeasePage {
 public:
  /// Makes the file in `folder` (a target's). May block briefly.
  static Result<std::unique_ptr<LeasePage>> make(int folder, const LeaseTitle& title);
  /// The pages that an earlier process left. Removes pages of another boot, whose holders are gone, and files that are
  /// no page.
  static Result<std::vector<std::unique_ptr<LeasePage>>> left_over(int folder);
  ~FolderLeasePage() override;

  LeaseWords& words() const override { return *reinterpret_cast<LeaseWords*>(page_.data()); }
  Result<UniqueFd> descriptor() const override;
  void keep() override { name_.clear(); }

 private:
  FolderLeasePage(int folder, std::string name, SharedPage page);
  static Result<std::unique_ptr<LeasePage>> adopt(int folder, const std::string& name);
  int folder_;  // the sub-folder's; a descriptor of its own
  std::string name_;
  SharedPage page_;
};

}  // namespace spate::trove
