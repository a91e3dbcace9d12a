// SPDX-License-Identifier: Apache-2.0
// CopyWalk: the parts of `spate cp` that are the same in each direction.
#pragma once

#include <string>

#include "job/semaphore.h"
#include "tools/copy.h"
#include "tools/destination.h"
#include "tools/paged_directory.h"

namespace spate::tools {

/// A directory that the walk is in.
struct CopyLevel {
  std::size_t from_bytes = 0;  // of its path
  std::size_t to_bytes = 0;    // of the copy's path
};

/// A walk through a tree, and the files that it copies meanwhile. Lives on the frame of copy_in(), copy_out() or
/// copy_within(), which closes `gate` at the end.
struct CopyWalk {
  client::Client& client;
  CopyRun& run;
  job::Gate gate;
  job::Semaphore slots;
  std::string from;  // path of the directory that the walk is in, and of the copy
  std::string to;

  CopyWalk(client::Client& its_client, CopyRun& its_run, std::size_t files_at_once)
      : client(its_client),
        run(its_run),
        gate(its_client.cluster().executor()),
        slots(its_client.cluster().executor(), files_at_once) {}

  void enter(CopyLevel& level, const std::string& from_path, const std::string& to_path);
  void return_to(const CopyLevel& level);
  /// Prints an error.
  void tell(const Result<void>& copied);
  /// Lists more of the directory that the walk is in.
  job::Task<void> list_more(PagedDirectory& directory);
  /// Copies one object, unless the run has ended.
  job::Task<void> attempt(job::Task<Result<void>> copy);
  /// Starts the copy of a file, which takes `weight` slots. Waits until a slot is free.
  job::Task<void> begin_file(std::size_t weight, job::Task<Result<void>> copy);
  /// Whether nothing is to be done at a destination inside the file system. Prints the copy if requested.
  job::Task<Result<bool>> is_left_out(const Destination& destination, const CopyState& source);

 private:
  job::Task<void> copy_in_slot(std::size_t weight, job::Task<Result<void>> copy);
};

}  // namespace spate::tools
