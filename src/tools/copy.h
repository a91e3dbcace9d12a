// SPDX-License-Identifier: Apache-2.0
// Copies data between local files and the file system: `spate cp`, `cat`, `put`, `get`.
#pragma once

#include <optional>

#include "tools/command.h"
#include "tools/progress.h"

namespace spate::tools {

/// The errors of a copy of many files. Each is printed at once, and the other files go on.
class CopyErrors {
 public:
  /// Prints "spate: message" on standard error. An error that every other file would meet as well (a server that does
  /// not answer, no space) ends the copy and is printed once.
  void tell(const Error& error);
  /// Whether a progress line must be cleared first.
  void clear_line(bool shown) { clear_line_ = shown; }
  bool any() const { return any_; }
  /// Whether no further file may be begun.
  bool ended() const { return ended_; }

 private:
  bool clear_line_ = false;
  bool any_ = false;
  bool ended_ = false;
};

/// The properties of a regular file that decide whether a copy of it is needed.
struct CopyState {
  std::uint64_t size = 0;
  WallTime mtime;
};

/// State that the coroutines of one `spate cp` share. Outlives them.
struct CopyRun {
  bool recursive = false;  // directories, with everything below, and links as links; else links are followed
  bool keep = false;       // keep existing files
  bool update = false;     // keep an existing file if its size and time are the same
  bool dry = false;        // make nothing, only print
  bool verbose = false;    // print each file

  /// Whether existing objects must be examined first.
  bool looks() const { return keep || update; }
  /// `there`: the object with the name, if it is a regular file. `taken`: whether any object has the name.
  bool leaves_alone(bool taken, const std::optional<CopyState>& there, const CopyState& source) const;
  /// Prints the copy, if requested. True: carry it out.
  bool begin(const std::string& from, const std::string& to) const;
  Progress progress;
  CopyErrors errors;
};

/// One source, and the name of its copy.
struct CopyParams {
  std::string from;
  std::string to;
  bool inside = false;  // `to` lies in a directory that is the destination; else `to` is what the user named
};
using CopyList = std::vector<CopyParams>;

/// A file of at most so many bytes is read or written with one request.
inline constexpr std::size_t kAtOnceBytes = 1U << 20U;
/// How many small files one copy in or out works on at once, so that many of their creates, opens and closes go to the
/// meta server together.
inline constexpr std::size_t kFilesAtOnce = 128;
/// How many small files a file counts as. A large one has several requests of 1 MiB in flight.
inline std::size_t weight_of(std::uint64_t bytes) { return bytes <= (64U << 10U) ? 1 : 4; }

// The functions below copy files and trees, with modes, times, links of both kinds and holes, several files at once;
// root copies owners, too. Existing objects get these attributes, too. A directory replaces nothing but a directory,
// and nothing else replaces a directory. Errors go to run.errors. A file whose data did not all arrive keeps the time
// of the attempt, so that its size and time do not make it look complete. Below a destination no symbolic link is
// followed, not even one that the copy has made: a file replaces it. A source that is a link is followed unless
// run.recursive. Setuid and setgid are kept only if user and group
// are. `list` and `run` outlive the task.

/// Copies into the file system.
job::Task<void> copy_in(client::Client& client, const CopyList& list, CopyRun& run);
/// Copies out of the file system. If the destination is no regular file (/dev/null, a fifo), copies only the data.
job::Task<void> copy_out(client::Client& client, const CopyList& list, CopyRun& run);
/// Copies inside the file system: the io servers copy, no data comes here.
job::Task<void> copy_within(client::Client& client, const CopyList& list, CopyRun& run);

/// Adds the files that will be copied to the totals of `progress`, which may grow meanwhile. Files that cannot be
/// examined do not count.
/// `follow`: whether `path` may be a link to what is copied.
job::Task<void> count_local(job::Executor& executor, std::string path, bool follow, Progress& progress,
                            job::StopToken stop);
job::Task<void> count_remote(client::Client& client, std::string path, bool follow, Progress& progress,
                             job::StopToken stop);

/// Copies everything from a local descriptor to an open file, with several requests at once. Yields the bytes.
/// `sparse`: `fd` is a regular file at its beginning; its holes are left out, and the file gets its size.
job::Task<Result<std::uint64_t>> pump_in(client::File& file, int fd, bool sparse, Progress& progress);
/// The other direction. `sparse`: skips holes by seeking, which needs a regular file.
job::Task<Result<std::uint64_t>> pump_out(client::File& file, int fd, bool sparse, Progress& progress);

}  // namespace spate::tools
