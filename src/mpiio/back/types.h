// SPDX-License-Identifier: Apache-2.0
// MPI's datatypes as Flat.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "mpiio/back/mpi.h"
#include "mpiio/flatten.h"

namespace spate::mpiio {

/// Kept with the type until it is freed. Null: its map needs too many pieces, or MPI does not tell what it is made of.
std::shared_ptr<const Flat> flat_of(MPI_Datatype type);

/// The same where a predefined type has as many bytes as `bytes_of` says and lies side by side with its neighbours:
/// displacements in elements are scaled, those in bytes stay (MPI 3.1, sec. 13.5). Not kept.
using BytesOf = std::function<std::optional<std::uint64_t>(MPI_Datatype)>;
std::shared_ptr<const Flat> flat_with(MPI_Datatype type, const BytesOf& bytes_of);

/// True: made by MPI itself; not to be freed.
bool is_named(MPI_Datatype type);
/// A handle to keep: a named type itself, else a copy, for free_copy().
MPI_Datatype copy_type(MPI_Datatype type);
void free_copy(MPI_Datatype& type);

}  // namespace spate::mpiio
