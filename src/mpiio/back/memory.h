// SPDX-License-Identifier: Apache-2.0
// Memory: the program's memory of one access, as MPI's arguments describe it.
#pragma once

#include <cstdint>
#include <memory>

#include "mpiio/back/errors.h"
#include "mpiio/back/types.h"

namespace spate::mpiio {

/// The memory of one access: `count` elements of a type at `base`. A value; `flat` lives as long as the object.
struct Memory {
  char* base = nullptr;
  std::shared_ptr<const Flat> flat;
  std::uint64_t bytes = 0;  // length of the memory's stream
  /// The address of the stream if it is one piece of memory, else null.
  char* whole() const;
};
/// Sets `out`. A failure has the class MPI_ERR_COUNT, MPI_ERR_TYPE or MPI_ERR_BUFFER.
Failure memory_of(void* buffer, MPI_Count count, MPI_Datatype type, Memory& out);

/// gather() copies `size` bytes of the memory's stream, from byte `first` on, to `out`. scatter() copies them back.
void gather(const Memory& memory, std::uint64_t first, std::uint64_t size, char* out);
void scatter(const Memory& memory, std::uint64_t first, std::uint64_t size, const char* from);

}  // namespace spate::mpiio
