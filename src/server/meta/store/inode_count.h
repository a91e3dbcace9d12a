// SPDX-License-Identifier: Apache-2.0
// InodeCount: the number of inodes in the store, for statfs, without a record that every create would have to change.
#pragma once

#include "job/gate.h"
#include "job/storage.h"

namespace spate::meta {

/// The count is in memory, and stop() stores it. After a crash it is counted again in the background; until that is
/// done, it is too low. One executor. Life cycle: start() -> stop().
class InodeCount {
 public:
  explicit InodeCount(job::KeyvalContext& store);
  InodeCount(const InodeCount&) = delete;
  InodeCount& operator=(const InodeCount&) = delete;

  job::Task<Result<void>> start();
  job::Task<Result<void>> stop();
  void add(int difference) { changed_ += difference; }
  std::uint64_t count() const;

 private:
  job::Task<void> count_all();
  job::Task<Result<void>> count_page(job::Transaction& store, Bytes& from);

  job::KeyvalContext& store_;
  std::uint64_t counted_ = 0;
  std::int64_t changed_ = 0;  // changes since the state that was counted
  bool counting_ = false;
  bool started_ = false;  // if false, the store may belong to another server
  job::Gate gate_;
  job::StopSource stopping_;
};

}  // namespace spate::meta
