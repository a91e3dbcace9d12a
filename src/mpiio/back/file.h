// SPDX-License-Identifier: Apache-2.0
// File: a file of Spate that MPI_File_open has opened.
#pragma once

#include <spate.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "mpiio/back/errors.h"
#include "mpiio/back/hints.h"
#include "mpiio/back/mpi.h"
#include "mpiio/back/types.h"

namespace spate::mpiio {

/// How the file's bytes appear. A value; the types are copies that File frees.
struct View {
  MPI_Offset displacement = 0;
  MPI_Datatype etype = MPI_BYTE;
  MPI_Datatype filetype = MPI_BYTE;
  std::shared_ptr<const Flat> flat;  // of the filetype
  std::uint64_t etype_bytes = 1;
  bool external32 = false;  // else native
};

/// Life cycle: open_file() on all ranks -> close_file() on all ranks. Threads: any call of MPI at any time; `mutex`
/// guards the pointers and the split access.
struct File {
  MPI_File shadow = MPI_FILE_NULL;
  MPI_Comm comm = MPI_COMM_NULL;  // a copy of the program's
  int rank = 0;
  int ranks = 1;
  int amode = 0;
  spate_fs* fs = nullptr;
  spate_file* file = nullptr;
  std::string path;
  Hints hints;
  std::map<std::string, std::string> echoed;
  std::vector<int> aggregators;  // ranks; as many as hints.cb_nodes
  View view;
  bool atomic = false;

  std::mutex mutex;
  std::uint64_t position = 0;  // of this rank, in etypes of the view
  std::uint64_t start = 0;     // where the shared pointer begins, in etypes
  std::optional<long> split;   // bytes that a split collective access has moved and whose end was not called

  std::string pointer_path;            // of the file that holds the shared pointer
  spate_file* pointer_file = nullptr;  // opened by the first use
};

/// The file behind a handle; null: MPI's own. The handle stays open while the file is used.
File* find(MPI_File handle);

/// Collective over `comm`; sets *handle. *ours is false, and nothing was done, when the file is not Spate's. On failure
/// *handle is MPI_FILE_NULL, on all ranks.
Failure open_file(MPI_Comm comm, const char* name, int amode, MPI_Info info, MPI_File* handle, bool* ours);
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
/// Whether all ranks give the same value. Collective.
bool all_same(MPI_Comm comm, std::int64_t value);

void reset_view(View& view, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                std::shared_ptr<const Flat> flat);

}  // namespace spate::mpiio
