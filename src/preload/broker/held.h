// SPDX-License-Identifier: Apache-2.0
// HeldFiles: the open files of programs that the broker watches, and those programs.
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
  std::uint64_t owner = 0;  // as an owner of locks
  int watch = -1;
  bool gone = false;                   // no process has it any more
  bool locked = false;                 // it may have locks
  std::unique_ptr<client::File> file;  // null: not held open
};

/// A process that is connected or has record locks.
struct Program {
  UniqueFd pidfd;
  std::uint64_t owner = 0;  // as an owner of locks
  std::set<Handle> locked;  // files that it may have record locks on
  bool ended = false;
};

/// All functions are called on one thread. The broker owns it, and closes the files at the servers.
class HeldFiles {
 public:
  /// Opens an inotify instance. A watch costs the kernel a few words of memory.
  static Result<std::unique_ptr<HeldFiles>> make();
  int inotify() const { return inotify_.get(); }

  HeldFile* find(const MemoryIdentity& identity);
  /// The open file that a descriptor of its memory belongs to; begins to watch it if it is new. kInvalidArgument: it
  /// does not have this handle, or is not the memory of an open file of this user (memory.h), whatever its inode number
  /// is. kNoLocks: too many watches.
  Result<HeldFile*> watch(int descriptor, Handle handle);
  /// Marks the files that no process has any more.
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
