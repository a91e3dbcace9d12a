// SPDX-License-Identifier: Apache-2.0
// NameSpaceCheck: checks the meta server's records, page by page, in rounds of as many inodes as fit the table.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "fsck/links.h"
#include "fsck/repair_queue.h"
#include "fsck/sizes.h"

namespace spate::fsck {

/// Life cycle: construct -> run() awaited once -> destroyed. One executor. Pinned. Memory: the table, a page, and the
/// suspicions that the queue keeps.
class NameSpaceCheck {
 public:
  /// `sizes`: null if io servers are not asked.
  NameSpaceCheck(Servers& servers, const Options& options, RepairQueue& queue, Observer& observer, SizeCheck* sizes);
  NameSpaceCheck(const NameSpaceCheck&) = delete;
  NameSpaceCheck& operator=(const NameSpaceCheck&) = delete;

  /// Fails when the meta server does not answer.
  job::Task<Result<void>> run(unsigned pass);

  std::uint64_t inodes() const { return inodes_; }
  std::uint64_t entries() const { return entries_; }
  std::uint64_t unfinished() const { return unfinished_; }

 private:
  /// A directory whose entries are being counted, page after page.
  struct DirectoryCount {
    wire::DirectoryFact sum;
    bool changed = false;
  };
  struct Name {
    Handle directory;
    std::string name;
  };

  job::Task<Result<void>> scan_inodes(bool& more);
  job::Task<Result<void>> scan_entries(bool first_round);
  job::Task<Result<void>> scan_others();
  job::Task<Result<void>> check_links();
  job::Task<Result<void>> find_names(std::vector<Linked>& suspects);
  job::Task<Result<wire::MetaScanReply>> page(wire::MetaScanRequest request);
  Result<void> take_inodes(const wire::MetaScanReply& reply);
  void take_findings(wire::MetaScanReply& reply);
  void count_directory(const wire::DirectoryFact& fact);
  void close_directory();
  void suspect_nameless(const Linked& inode);
  void suspect_named(const Linked& inode, const std::vector<Name>& names);
  void tell_progress(Phase phase, std::uint64_t done, std::uint64_t expected);

  Servers& servers_;
  const Options& options_;
  RepairQueue& queue_;
  Observer& observer_;
  SizeCheck* const sizes_;
  unsigned pass_ = 1;
  LinkTable table_;
  Handle next_low_;  // where the next round begins
  std::optional<DirectoryCount> counting_;
  std::set<std::pair<Handle, std::string>> misled_;  // entries already suspected of being a directory's second name
  std::unordered_map<Handle, std::vector<Name>> names_;
  bool unreadable_names_ = false;
  std::uint64_t expected_ = 0;
  std::uint64_t inodes_ = 0;
  std::uint64_t entries_ = 0;
  std::uint64_t unfinished_ = 0;
  std::uint64_t records_ = 0;
};

}  // namespace spate::fsck
