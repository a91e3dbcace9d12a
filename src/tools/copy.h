// SPDX-License-Identifier: Apache-2.0
// Copying data between local files and the file system: `spate cp`, `cat`, `put`, `get`.
#pragma once

#include "tools/command.h"

namespace spate::tools {

Command make_cp();
Command make_cat();
Command make_put();
Command make_get();

/// What a copy has moved so far; printed as a progress line on a terminal.
struct Progress {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

/// One thing to be copied, with the name that it gets.
struct CopyWish {
  std::string from;
  std::string to;
  bool recursive = false;  // directories, with everything below
};

/// Files that one copy in or out has open.
inline constexpr std::size_t kFilesAtOnce = 32;

// A file or a tree, with modes, times, links of both kinds and holes; several files at once. Owners as well for root. The
// first error ends it.

/// Into the file system. `progress` outlives it.
job::Task<Result<void>> copy_in(client::Client& client, CopyWish wish, Progress& progress);
/// Out of the file system.
job::Task<Result<void>> copy_out(client::Client& client, CopyWish wish, Progress& progress);
/// Inside of it: the io servers copy, no data comes here.
job::Task<Result<void>> copy_within(client::Client& client, CopyWish wish);

/// Copies everything from a local descriptor to an open file, several requests at once. Yields the bytes.
job::Task<Result<std::uint64_t>> pump_in(client::File& file, int fd, Progress& progress);
/// The other way; skips holes by seeking when `sparse`.
job::Task<Result<std::uint64_t>> pump_out(client::File& file, int fd, bool sparse, Progress& progress);

}  // namespace spate::tools
