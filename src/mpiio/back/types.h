// SPDX-License-Identifier: Apache-2.0
// MPI's datatypes as values of the class Flat.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "mpiio/back/mpi.h"
#include "mpiio/flatten.h"

namespace spate::mpiio {

/// The map of a type. MPI keeps the map with the type until the type is freed. Null: the type needs too many pieces, or
/// MPI does not tell its parts.
std::shared_ptr<const Flat> flat_of(MPI_Datatype type);

/// As flat_of(), but a predefined type has the size that `bytes_of` returns, and no gap before its neighbour.
/// Displacements in elements are scaled, those in bytes stay (MPI 3.1, sec. 13.5). The map is not kept.
using BytesOf = std::function<std::optional<std::uint64_t>(MPI_Datatype)>;
std::shared_ptr<const Flat> flat_with(MPI_Datatype type, const BytesOf& bytes_of);

/// Whether MPI itself made the type. Such a type must not be freed.
bool is_named(MPI_Datatype type);
/// A handle to keep: a named type itself, or a copy of another one. Free it with free_copy().
MPI_Datatype copy_type(MPI_Datatype type);
void free_copy(MPI_Datatype& type);

}  // namespace spate::mpiio
