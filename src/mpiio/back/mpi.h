// SPDX-License-Identifier: Apache-2.0
// The MPI that this back is compiled for, and its own functions for files. All other functions are called as PMPI_:
// a profiling library sees the program's calls, not those of this library.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace spate::mpiio {

/// dlsym in the MPI library itself; this library's symbols for files would lead back to the front.
void* real_symbol(const char* name);
void set_real_library(void* library);

/// MPI's own function for a file that is not Spate's; null when this MPI has none of that name.
template <typename Function>
Function* real_function(const char* name) {
  return reinterpret_cast<Function*>(real_symbol(name));
}

/// What MPI's own function of that name gives.
template <typename... Parameters, typename... Arguments>
int pass_on(int (*function)(Parameters...), Arguments... arguments) {
  return function == nullptr ? MPI_ERR_UNSUPPORTED_OPERATION : function(arguments...);
}

}  // namespace spate::mpiio

/// `return SPATE_PASS_ON(File_get_size, (MPI_File, MPI_Offset*), file, size);`
#define SPATE_PASS_ON(name, parameters, ...)                                                \
  ([&] {                                                                                    \
    static auto* const real = ::spate::mpiio::real_function<int parameters>("PMPI_" #name); \
    return ::spate::mpiio::pass_on(real, __VA_ARGS__);                                      \
  }())

/// A function that the front leads to.
#define SPATE_CALL extern "C" __attribute__((visibility("default"))) int
