// SPDX-License-Identifier: Apache-2.0
// MPI_Register_datarep, with counts of int and of MPI_Count.
#include <climits>

#include "mpiio/back/representation.h"

using namespace spate::mpiio;

namespace {

/// MPI 4's MPI_Datarep_conversion_function_c, which older MPIs do not declare.
using ConversionOfMany = int(void*, MPI_Datatype, MPI_Count, void*, MPI_Offset, void*);

/// Wraps the program's function so that it can convert the values of one call. Functions of older MPIs count values
/// with an int, so the wrapped one may be called several times. A null function converts nothing.
template <typename Count>
Representation::Convert as_convert(int (*function)(void*, MPI_Datatype, Count, void*, MPI_Offset, void*), void* extra) {
  if (function == nullptr) return {};
  return [function, extra](void* memory, MPI_Datatype type, MPI_Count count, void* values, MPI_Offset position) {
    if (count > std::numeric_limits<Count>::max()) return static_cast<int>(MPI_ERR_COUNT);
    return function(memory, type, static_cast<Count>(count), values, position, extra);
  };
}

template <typename Function>
int register_here(const char* name, Function* read, Function* write, MPI_Datarep_extent_function* extent, void* extra) {
  if (name == nullptr || extent == nullptr)
    return raise_without_file({MPI_ERR_ARG, "spate: a data representation has a name and a function for extents"});
  Representation representation;
  representation.name = name;
  representation.converts = true;
  representation.registered = true;
  representation.read = as_convert(read, extra);
  representation.write = as_convert(write, extra);
  representation.bytes_of = [extent, extra](MPI_Datatype type) -> std::optional<std::uint64_t> {
    MPI_Aint bytes = 0;
    if (extent(type, &bytes, extra) != MPI_SUCCESS || bytes <= 0) return std::nullopt;
    return static_cast<std::uint64_t>(bytes);
  };
  const Failure failure = register_representation(std::move(representation));
  return failure.failed() ? raise_without_file(failure) : MPI_SUCCESS;
}

}  // namespace

// MPI's own function is called, too, for files that are not Spate's. Its result shows whether MPI can use the
// representation.

SPATE_CALL spate_Register_datarep(const char* name, MPI_Datarep_conversion_function* read,
                                  MPI_Datarep_conversion_function* write, MPI_Datarep_extent_function* extent,
                                  void* extra) {
  const int code = register_here(name, read, write, extent, extra);
  if (code == MPI_SUCCESS)
    SPATE_PASS_ON(Register_datarep,
                  (const char*, MPI_Datarep_conversion_function*, MPI_Datarep_conversion_function*,
                   MPI_Datarep_extent_function*, void*),
                  name, read, write, extent, extra);
  return code;
}

SPATE_CALL spate_Register_datarep_c(const char* name, ConversionOfMany* read, ConversionOfMany* write,
                                    MPI_Datarep_extent_function* extent, void* extra) {
  const int code = register_here(name, read, write, extent, extra);
  if (code == MPI_SUCCESS)
    SPATE_PASS_ON(Register_datarep_c,
                  (const char*, ConversionOfMany*, ConversionOfMany*, MPI_Datarep_extent_function*, void*), name, read,
                  write, extent, extra);
  return code;
}
