// SPDX-License-Identifier: Apache-2.0
// File: a file of Spate that MPI_File_open has opened.
#pragma once

#include <spate.h>

#include <array>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "mpiio/back/background.h"
#include "mpiio/back/buffer.h"
#include "mpiio/back/communicator.h"
#include "mpiio/back/errors.h"
#include "mpiio/back/hints.h"
#include "mpiio/back/mpi.h"
#include "mpiio/back/types.h"
#include "mpiio/strategy_history.h"

namespace spate::mpiio {

struct Representation;

/// How the file's bytes appear to the program. A value; the types are copies that File frees.
struct View {
  MPI_Offset displacement = 0;
  MPI_Datatype etype = MPI_BYTE;
  MPI_Datatype filetype = MPI_BYTE;
  std::shared_ptr<const Flat> flat;    // map of the filetype
  Flat::TrueExtent true_extent{0, 1};  // of the filetype
  bool ascends = true;                 // the bytes of a filetype ascend
  bool apart = true;                   // no byte of a filetype lies behind the first byte of the next one
  std::uint64_t etype_bytes = 1;
  const Representation* representation = nullptr;
};

/// Life cycle: open_file() on all ranks -> close_file() on all ranks. Any thread may make any call of MPI at any time.
/// `mutex` guards the pointers, the split access and the number of nonblocking accesses.
struct File {
  MPI_File shadow = MPI_FILE_NULL;
  MPI_Comm comm = MPI_COMM_NULL;  // a copy of the program's communicator
  int rank = 0;
  int ranks = 1;
  int amode = 0;
  std::string config;          // configuration of the file system
  spate_fs* fs = nullptr;      // null until open_own()
  spate_file* file = nullptr;  // null until open_own(); rank 0's is open from the start
  std::uint64_t inode = 0;
  std::string path;
  Hints hints;
  std::map<std::string, std::string> echoed;
  std::set<std::string> said;    // rank 0: messages about hints that were printed
  std::vector<int> aggregators;  // ranks of the aggregators; hints.cb_nodes of them
  View view;
  bool atomic = false;
  std::mutex atomic_turn;  // held by an access of this rank in atomic mode, because a lock of the file does not exclude
                           // accesses of the same client

  std::mutex opening;  // guards `fs` and `file`, which never change once they are set
  std::mutex mutex;
  std::uint64_t position = 0;                  // this rank's pointer, in etypes of the view
  std::uint64_t start = 0;                     // where the shared pointer begins, in etypes
  std::unique_ptr<CollectiveBuffers> buffers;  // of the last collective access; null while one is under way
  std::size_t under_way = 0;                   // nonblocking accesses that have not ended
  std::condition_variable none_under_way;
  // For nonblocking collective accesses, if all ranks have MPI_THREAD_MULTIPLE: a communicator, else null, and a thread
  // that makes them in the order of the program's calls, which is the same on all ranks.
  MPI_Comm own_comm = MPI_COMM_NULL;
  std::unique_ptr<Background> in_turn;
  // Element 0 is about reads, element 1 about writes. `in_turn` has histories of its own: its accesses may run in
  // another order with the program's accesses on each rank.
  std::array<StrategyHistory, 2> histories;
  std::array<StrategyHistory, 2> histories_in_turn;
  std::optional<long> split;  // bytes that a split collective access has moved, until its end function is called

  std::string pointer_path;            // path of the file that holds the shared pointer
  spate_file* pointer_file = nullptr;  // opened when it is first used
};

/// The file of a handle. Null: the handle is one of MPI's own files. The handle stays open while the file is used.
File* find(MPI_File handle);

/// Opens a file and sets *handle. Collective over `comm`. If the file is not Spate's, *ours becomes false and nothing
/// else happens. On failure *handle is MPI_FILE_NULL on all ranks.
Failure open_file(MPI_Comm comm, const char* name, int amode, MPI_Info info, MPI_File* handle, bool* ours);
/// Connects to the file's file system. Null, with a negative errno in *outcome, if that fails.
spate_fs* own_file_system(File& file, long* outcome);
/// Opens the file for this rank if it is not open yet, because the rank will read or write it. Returns 0 or a negative
/// errno. It opens the inode without a path. Ranks whose accesses others make for them never ask a server.
long open_own(File& file);
/// Closes the file. Collective. The handle is invalid afterwards, whatever the result is.
Failure close_file(MPI_File* handle);

/// Changes the hints of an open file, except its layout. Collective; all ranks take those of rank 0.
void change_hints(File& file, MPI_Info info);

/// The worst failure of all ranks. Every rank gets its class. Collective, by default over file.comm.
Failure agree(const File& file, const Communicator& communicator, const Failure& own);
Failure agree(const File& file, const Failure& own);
/// Waits until the nonblocking accesses of this rank have ended. A collective one needs the other ranks, too, so all
/// ranks call this, or none.
void wait_for_none_under_way(File& file);
/// The return value of a function of MPI. Calls the file's error handler if there is a failure.
inline int result(const File& file, const Failure& failure) {
  return failure.failed() ? raise(file.shadow, failure) : MPI_SUCCESS;
}
/// A hash of the text, which is the same on every rank.
std::int64_t hash_of(const std::string& text);
/// Whether all ranks pass the same value. Collective.
bool all_same(MPI_Comm comm, std::int64_t value);

/// Replaces `view` by `made`, with copies of its types.
void replace_view(View& view, View made);

}  // namespace spate::mpiio
