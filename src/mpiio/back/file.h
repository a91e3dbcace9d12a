// SPDX-License-Identifier: Apache-2.0
// File: a file of Spate that MPI_File_open has opened.
#pragma once

#include <spate.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "mpiio/back/errors.h"
#include "mpiio/back/hints.h"
#include "mpiio/back/mpi.h"
#include "mpiio/back/types.h"

namespace spate::mpiio {

struct Representation;

/// How the file's bytes appear. A value; the types are copies that File frees.
struct View {
  MPI_Offset displacement = 0;
  MPI_Datatype etype = MPI_BYTE;
  MPI_Datatype filetype = MPI_BYTE;
  std::shared_ptr<const Flat> flat;  // of the filetype
  std::uint64_t etype_bytes = 1;
  const Representation* representation = nullptr;
};

/// Life cycle: open_file() on all ranks -> close_file() on all ranks. Threads: any call of MPI at any time; `mutex`
/// guards the pointers, the split access and the number of nonblocking ones.
struct File {
  MPI_File shadow = MPI_FILE_NULL;
  MPI_Comm comm = MPI_COMM_NULL;  // a copy of the program's
  int rank = 0;
  int ranks = 1;
  int amode = 0;
  std::string config;          // of the file system
  spate_fs* fs = nullptr;      // null until open_own()
  spate_file* file = nullptr;  // null until open_own(); rank 0's is open from the start
  std::uint64_t inode = 0;
  std::string path;
  Hints hints;
  std::map<std::string, std::string> echoed;
  std::set<std::string> said;    // rank 0: what was wrong with hints
  std::vector<int> aggregators;  // ranks; as many as hints.cb_nodes
  View view;
  bool atomic = false;
  std::mutex atomic_turn;  // this rank's accesses in atomic mode: a lock of the file does not hold against them

  std::mutex opening;  // guards `fs` and `file`, which stay once they are there
  std::mutex mutex;
  std::uint64_t position = 0;  // of this rank, in etypes of the view
  std::uint64_t start = 0;     // where the shared pointer begins, in etypes
  std::size_t under_way = 0;   // nonblocking accesses
  std::condition_variable none_under_way;
  std::optional<long> split;  // bytes that a split collective access has moved and whose end was not called

  std::string pointer_path;            // of the file that holds the shared pointer
  spate_file* pointer_file = nullptr;  // opened by the first use
};

/// The file behind a handle; null: MPI's own. The handle stays open while the file is used.
File* find(MPI_File handle);

/// Collective over `comm`; sets *handle. *ours is false, and nothing was done, when the file is not Spate's. On failure
/// *handle is MPI_FILE_NULL, on all ranks.
Failure open_file(MPI_Comm comm, const char* name, int amode, MPI_Info info, MPI_File* handle, bool* ours);
/// The file's file system, connected to: null, and a negative errno in *outcome, when it cannot be.
spate_fs* own_file_system(File& file, long* outcome);
/// Opens the file for this rank, which is to read or write it, if it has not been: 0, or a negative errno. By its
/// inode, without a path: ranks that only take part in what others read and write for them ask no server.
long open_own(File& file);
/// Collective. The handle is gone whatever comes out.
Failure close_file(MPI_File* handle);

/// Takes over hints of an open file: its layout stays as it is. Collective; rank 0's count.
void change_hints(File& file, MPI_Info info);

/// The worst of what the ranks say: all get the same class. Collective.
Failure agree(File& file, const Failure& own);
/// What a function of MPI returns; calls the file's error handler.
inline int result(const File& file, const Failure& failure) {
  return failure.failed() ? raise(file.shadow, failure) : MPI_SUCCESS;
}
/// The same number on every rank for the same text.
std::int64_t hash_of(const std::string& text);
/// Whether all ranks give the same value. Collective.
bool all_same(MPI_Comm comm, std::int64_t value);

/// `view` becomes `made`, with copies of its types.
void replace_view(View& view, View made);

}  // namespace spate::mpiio
