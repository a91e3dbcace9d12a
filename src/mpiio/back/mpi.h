// SPDX-License-Identifier: Apache-2.0
// The MPI for which this back is compiled, and that MPI's own functions for files. The back calls all other functions
// as PMPI_, so that a profiling library sees the program's calls and not those of this library.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace spate::mpiio {

/// Looks up a symbol in the MPI library itself, because this library's symbols for files would lead back to the front.
void* real_symbol(const char* name);
void set_real_library(void* library);

/// MPI's own function, for a file that is not Spate's. Null if this MPI has no function of that name.
template <typename Function>
Function* real_function(const char* name) {
  return reinterpret_cast<Function*>(real_symbol(name));
}

/// Calls MPI's own function of that name and returns its result.
template <typename... Parameters, typename... Arguments>
int pass_on(int (*function)(Parameters...), Arguments... arguments) {
  return function == nullptr ? MPI_ERR_UNSUPPORTED_OPERATION : function(arguments...);
}

/// Makes a shadow: a file of MPI's own that stands for a file of Spate. So MPI itself provides the handles, their
/// Fortran numbers and their error handlers. Returns MPI_FILE_NULL if MPI could not make one.
MPI_File make_shadow();
void free_shadow(MPI_File* shadow);

}  // namespace spate::mpiio

/// `return SPATE_PASS_ON(File_get_size, (MPI_File, MPI_Offset*), file, size);`
#define SPATE_PASS_ON(name, parameters, ...)                                                \
  ([&] {                                                                                    \
    static auto* const real = ::spate::mpiio::real_function<int parameters>("PMPI_" #name); \
    return ::spate::mpiio::pass_on(real, __VA_ARGS__);                                      \
  }())

/// Marks a function that the front calls.
#define SPATE_CALL extern "C" __attribute__((visibility("default"))) int
