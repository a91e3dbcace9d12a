// SPDX-License-Identifier: Apache-2.0
// A shadow: a file of MPI's own that stands for a file of Spate, so that handles, their Fortran numbers and their error
// handlers are MPI's and are right.
#pragma once

#include "mpiio/back/mpi.h"

namespace spate::mpiio {

/// MPI_FILE_NULL: MPI could not make one.
MPI_File make_shadow();
void free_shadow(MPI_File* shadow);

}  // namespace spate::mpiio
