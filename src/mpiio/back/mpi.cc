// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/mpi.h"

#include <dlfcn.h>

#include <atomic>

namespace spate::mpiio {
namespace {

std::atomic<void*> library{nullptr};

}  // namespace

void set_real_library(void* handle) { library = handle; }

void* real_symbol(const char* name) { return ::dlsym(library, name); }

MPI_File make_shadow() {
  static auto* const open = real_function<int(MPI_Comm, const char*, int, MPI_Info, MPI_File*)>("PMPI_File_open");
  MPI_File shadow = MPI_FILE_NULL;
  // This file always exists, and MPI writes nothing beside it.
  if (open == nullptr || open(MPI_COMM_SELF, "/proc/self/exe", MPI_MODE_RDONLY, MPI_INFO_NULL, &shadow) != MPI_SUCCESS)
    return MPI_FILE_NULL;
  return shadow;
}

void free_shadow(MPI_File* shadow) {
  static auto* const close = real_function<int(MPI_File*)>("PMPI_File_close");
  if (close != nullptr) close(shadow);
}

}  // namespace spate::mpiio

/// The front reads this to check that the back is for the program's MPI.
extern "C" __attribute__((visibility("default"))) const char spate_mpi_kind[] =
#ifdef OPEN_MPI
    "openmpi";
#else
    "mpich";
#endif

/// Called by the front once, with the MPI library of the process.
extern "C" __attribute__((visibility("default"))) void spate_mpi_start(void* handle) {
  spate::mpiio::set_real_library(handle);
}
