// SPDX-License-Identifier: Apache-2.0
// Copying data between local files and the file system: `spate cp`, `cat`, `put`, `get`.
#pragma once

#include <optional>

#include "tools/command.h"
#include "tools/progress.h"

namespace spate::tools {

/// The errors of a copy of many files. Each is printed at once, and the other files go on.
class Troubles {
 public:
  /// Prints "spate: message" on standard error. An error that would meet every other file as well (a server that does
  /// not answer, no space) ends the copy and is told once.
  void tell(const Error& error);
  /// Whether a line of progress is to be cleared first.
  void clear_line(bool shown) { clear_line_ = shown; }
  bool any() const { return any_; }
  /// Nothing more is to be begun.
  bool ended() const { return ended_; }

 private:
  bool clear_line_ = false;
  bool any_ = false;
  bool ended_ = false;
};

/// A regular file, as far as it decides whether a copy of it is needed.
struct CopyState {
  std::uint64_t size = 0;
  WallTime mtime;
};

/// One `spate cp`: what its coroutines share. Outlives them.
struct CopyRun {
  bool recursive = false;  // directories, with everything below
  bool keep = false;       // what is there
  bool update = false;     // a file that is there with the same size and time is left alone
  bool dry = false;        // nothing is made, only told
  bool verbose = false;    // each file is told

  /// Whether anybody has to look at what is there first.
  bool looks() const { return keep || update; }
  /// `there`: what has the name, if it is a regular file; other things that have it: `taken`.
  bool leaves_alone(bool taken, const std::optional<CopyState>& there, const CopyState& source) const;
  /// Tells what is copied, if that was asked for. True: go on and do it.
  bool begin(const std::string& from, const std::string& to) const;
  Progress progress;
  Troubles troubles;
};

/// One thing to be copied, with the name that it gets.
struct CopyParams {
  std::string from;
  std::string to;
  bool inside = false;  // of a directory that is the destination; else `to` is what the user named
};
using CopyList = std::vector<CopyParams>;

/// Files that one copy in or out has open.
inline constexpr std::size_t kFilesAtOnce = 32;

// Files and trees, with modes, times, links of both kinds and holes; several files at once. Owners as well for root.
// What exists takes these, too; a directory and anything else do not replace each other. Errors go to run.troubles. A
// file whose data did not all arrive keeps the time of the attempt, so that it is not taken for a copy by size and
// time. Below a destination no symbolic link is followed, also none that the copy itself has made: a file takes its
// place. Setuid and setgid are kept only where user and group are. `list` and `run` outlive the task.

/// Into the file system.
job::Task<void> copy_in(client::Client& client, const CopyList& list, CopyRun& run);
/// Out of the file system. Where the destination is no regular file (/dev/null, a fifo), data alone.
job::Task<void> copy_out(client::Client& client, const CopyList& list, CopyRun& run);
/// Inside of it: the io servers copy, no data comes here.
job::Task<void> copy_within(client::Client& client, const CopyList& list, CopyRun& run);

/// Adds what will be copied to the totals of `progress`, which may grow meanwhile. What cannot be looked at does not
/// count.
job::Task<void> count_local(job::Executor& executor, std::string path, Progress& progress, job::StopToken stop);
job::Task<void> count_remote(client::Client& client, std::string path, Progress& progress, job::StopToken stop);

/// Copies everything from a local descriptor to an open file, several requests at once. Yields the bytes. `sparse`:
/// `fd` is a regular file at its beginning; its holes are left out, and the file gets its size.
job::Task<Result<std::uint64_t>> pump_in(client::File& file, int fd, bool sparse, Progress& progress);
/// The other way; skips holes by seeking when `sparse`, which takes a regular file.
job::Task<Result<std::uint64_t>> pump_out(client::File& file, int fd, bool sparse, Progress& progress);

}  // namespace spate::tools
