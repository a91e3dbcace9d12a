// SPDX-License-Identifier: Apache-2.0
// A shadow: a file of MPI's own that stands for a file of Spate. So MPI itself provides the handles, their Fortran
// numbers and their error handlers.
#pragma once

#include "mpiio/back/mpi.h"

namespace spate::mpiio {

/// Returns MPI_FILE_NULL if MPI could not make a shadow.
MPI_File make_shadow();
void free_shadow(MPI_File* shadow);

}  // namespace spate::mpiio
