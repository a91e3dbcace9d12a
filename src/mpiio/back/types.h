// SPDX-License-Identifier: Apache-2.0
// MPI's datatypes as Flat.
#pragma once

#include <memory>

#include "mpiio/back/mpi.h"
#include "mpiio/flatten.h"

namespace spate::mpiio {

/// Kept with the type until it is freed. Null: its map needs too many pieces, or MPI does not tell what it is made of.
std::shared_ptr<const Flat> flat_of(MPI_Datatype type);

/// True: made by MPI itself; not to be freed.
bool is_named(MPI_Datatype type);
/// A handle to keep: a named type itself, else a copy, for free_copy().
MPI_Datatype copy_type(MPI_Datatype type);
void free_copy(MPI_Datatype& type);

}  // namespace spate::mpiio
