// SPDX-License-Identifier: Apache-2.0
// The data representation external32: big-endian, the same on every machine (MPI 3.1, sec. 13.5.2).
#pragma once

#include <vector>

#include "mpiio/back/access.h"

namespace spate::mpiio {

/// Whether a type's data take as many bytes in external32 as in memory. Only such types are taken: then a view's places
/// are the same in both.
bool same_size_in_external32(MPI_Datatype type);

/// The memory of one access, converted. Lives as long as the access.
class External32 {
 public:
  External32(void* buffer, MPI_Count count, MPI_Datatype type) : buffer_(buffer), count_(count), type_(type) {}
  External32(const External32&) = delete;
  External32& operator=(const External32&) = delete;

  /// Converts the memory and makes `memory` the converted bytes: a read need not reach all of them.
  Failure begin(Memory& memory);
  /// After a read: back to the program's memory.
  Failure finish_read();

 private:
  template <typename Convert>
  Failure convert(const Convert& convert_part);

  void* const buffer_;
  const MPI_Count count_;
  const MPI_Datatype type_;
  std::vector<char> bytes_;
};

}  // namespace spate::mpiio
