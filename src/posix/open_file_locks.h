// SPDX-License-Identifier: Apache-2.0
// OpenFileLocks: the locks of flock(2) and fcntl(2) that programs take through one open file.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <optional>
#include <set>

#include "client/client.h"

namespace spate::posix {

/// A record lock of fcntl(2) and its owner. The owner is a process, by a number that the front end chooses. With
/// `open_file` the owner is the open file description itself.
struct RecordLock {
  struct ::flock range{};
  std::uint64_t process = 0;
  bool open_file = false;
};

/// Converts the calls to locks of the client, and remembers who has had locks through the open file, so that its close
/// can release them. Does not check whether the open file allows a lock. One executor; any number of calls at once. The
/// client outlives it.
class OpenFileLocks {
 public:
  OpenFileLocks(client::Client& client, Handle handle);
  OpenFileLocks(const OpenFileLocks&) = delete;
  OpenFileLocks& operator=(const OpenFileLocks&) = delete;

  /// The lock that flock(2) with this operation means.
  Result<wire::LockSpec> flock_spec(int operation) const;
  /// The lock that fcntl(2) means. `base`: the offset in the file that l_whence stands for.
  Result<wire::LockSpec> record_lock_spec(const RecordLock& lock, std::int64_t base) const;

  /// See client::Locks::set(); unlocking never waits.
  job::Task<Result<void>> set(wire::LockSpec spec, bool wait, job::StopToken stop);
  /// The lock that conflicts. Nothing: none does.
  job::Task<Result<std::optional<wire::LockSpec>>> test(wire::LockSpec spec);
  /// The last descriptor was closed: releases the locks of this open file, and those that processes made through it.
  job::Task<Result<void>> release_all();

 private:
  client::Client& client_;
  const Handle handle_;
  const std::uint64_t number_;            // of this open file as an owner of locks
  std::set<client::LockHolder> holders_;  // owners that have had locks through this open file
};

/// The answer of F_GETLK to `asked`. `found`: the lock that conflicts; nothing: the answer is F_UNLCK.
struct ::flock as_flock(const struct ::flock& asked, const std::optional<wire::LockSpec>& found);

}  // namespace spate::posix
