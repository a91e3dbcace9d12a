// SPDX-License-Identifier: Apache-2.0
// Data representations (MPI 3.1, sec. 13.5): the form of a value of a predefined type in a file.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mpiio/back/memory.h"

namespace spate::mpiio {

/// "native" and "internal" convert nothing. "external32" is big-endian and the same on every machine. The program may
/// register others. Immutable; lives until the program ends.
struct Representation {
  /// Converts `count` values. `memory` holds elements of `type` and begins with their value number `position`. `values`
  /// holds the values side by side. Returns an MPI error code.
  using Convert =
      std::function<int(void* memory, MPI_Datatype type, MPI_Count count, void* values, MPI_Offset position)>;

  std::string name;
  bool converts = false;
  /// Size of a predefined type in a file, bytes. Nothing: the representation does not have the type.
  std::function<std::optional<std::uint64_t>(MPI_Datatype)> bytes_of;
  Convert read;   // empty: no conversion
  Convert write;  // empty: no conversion
  bool registered = false;

  bool operator==(const Representation& other) const { return this == &other; }
};

/// Null: no representation has that name.
const Representation* find_representation(const char* name);
/// MPI_ERR_DUP_DATAREP: the name is in use.
Failure register_representation(Representation representation);

/// The map of a type as it lies in a file. Null: as for flat_of(), or the representation lacks a type that it needs.
std::shared_ptr<const Flat> flat_in_file(MPI_Datatype type, const Representation& representation);

/// A copy of one access's memory in the form of a representation. It lives as long as the access.
class Converted {
 public:
  Converted(const Representation& representation, void* buffer, MPI_Count count, MPI_Datatype type)
      : representation_(representation), buffer_(buffer), count_(count), type_(type) {}
  Converted(const Converted&) = delete;
  Converted& operator=(const Converted&) = delete;

  /// Replaces `memory` by the copy. For a write, this converts the data.
  Failure begin(Memory& memory, bool write);
  /// Call it after a read of `bytes` bytes of the file. Converts the data and puts it into the program's memory.
  Failure finish_read(std::uint64_t bytes);
  /// The number of bytes in memory for `bytes` bytes of the file. A status counts the former.
  std::uint64_t native_bytes(std::uint64_t bytes) const;

 private:
  Failure convert(bool write, std::uint64_t bytes);
  Failure external32(bool write);
  std::uint64_t values_in(std::uint64_t bytes) const;

  const Representation& representation_;
  void* const buffer_;
  const MPI_Count count_;
  const MPI_Datatype type_;
  std::uint64_t native_ = 0;  // bytes of one element in memory
  std::uint64_t stored_ = 0;  // bytes of one element in the file
  std::uint64_t values_ = 0;  // predefined values in one element
  std::vector<char> bytes_;
};

}  // namespace spate::mpiio
