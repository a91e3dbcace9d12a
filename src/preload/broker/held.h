// SPDX-License-Identifier: Apache-2.0
// HeldFiles: the programs' open files that the broker watches, and those programs.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/unique_fd.h"
#include "client/client.h"
#include "preload/broker/memory.h"

namespace spate::preload {

/// An open file of programs, identified by its memfd.
struct HeldFile {
  MemoryIdentity identity;
  Handle handle;
  std::uint64_t owner = 0;  // its number as an owner of locks
  int watch = -1;
  bool gone = false;                   // no process has a descriptor of it any more
  bool locked = false;                 // it may have locks
  std::unique_ptr<client::File> file;  // null: the broker does not keep it open
};

/// A process that is connected or has record locks.
struct Program {
  UniqueFd pidfd;
  std::uint64_t owner = 0;  // its number as an owner of locks
  std::set<Handle> locked;  // files on which it may have record locks
  bool ended = false;
};

/// The broker owns this object. It closes HeldFile::file at the servers, and erases entries of all() that are gone.
/// Destroying this object sends nothing. One thread.
class HeldFiles {
 public:
  /// Opens an inotify instance. Each watch costs the kernel a few words of memory.
  static Result<std::unique_ptr<HeldFiles>> make();
  int inotify() const { return inotify_.get(); }

  HeldFile* find(const MemoryIdentity& identity);
  /// The open file whose memory `descriptor` refers to. Begins to watch the file if it is new. kInvalidArgument: the
  /// file does not have this handle, or `descriptor` is not the memory of an open file of this user (memory.h),
  /// whatever its inode number is. kNoLocks: there are too many watches.
  Result<HeldFile*> watch(int descriptor, Handle handle);
  /// Marks the files of which no process has a descriptor any more.
  void look_for_gone();
  std::map<MemoryIdentity, HeldFile>& all() { return files_; }

 private:
  explicit HeldFiles(UniqueFd inotify) : inotify_(std::move(inotify)) {}
  const UniqueFd inotify_;
  std::map<MemoryIdentity, HeldFile> files_;
  std::map<int, MemoryIdentity> by_watch_;
  std::uint64_t last_owner_ = 0;
};

}  // namespace spate::preload
