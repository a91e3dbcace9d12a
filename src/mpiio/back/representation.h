// SPDX-License-Identifier: Apache-2.0
// Data representations (MPI 3.1, sec. 13.5): how a value of a predefined type looks in a file.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mpiio/back/access.h"

namespace spate::mpiio {

/// "native" and "internal", which convert nothing; "external32": big-endian, the same on every machine; or one that the
/// program has registered. Immutable, lives until the program ends.
struct Representation {
  /// Converts `count` values between the program's memory of `type`, from its value number `position` on, and values
  /// side by side. An MPI error code.
  using Convert =
      std::function<int(void* memory, MPI_Datatype type, MPI_Count count, void* values, MPI_Offset position)>;

  std::string name;
  bool converts = false;
  /// Bytes of a predefined type in a file; nothing: the representation has none of it.
  std::function<std::optional<std::uint64_t>(MPI_Datatype)> bytes_of;
  Convert read;   // empty: as in memory
  Convert write;  // empty: as in memory
  bool registered = false;

  bool operator==(const Representation& other) const { return this == &other; }
};

/// Null: there is none of that name.
const Representation* find_representation(const char* name);
/// MPI_ERR_DUP_DATAREP: the name is taken.
Failure register_representation(Representation representation);

/// A type's bytes as they lie in a file. Null: see flat_of(), or the representation has none of a type in it.
std::shared_ptr<const Flat> flat_in_file(MPI_Datatype type, const Representation& representation);

/// The memory of one access in a representation that converts. Lives as long as the access.
class Converted {
 public:
  Converted(const Representation& representation, void* buffer, MPI_Count count, MPI_Datatype type)
      : representation_(representation), buffer_(buffer), count_(count), type_(type) {}
  Converted(const Converted&) = delete;
  Converted& operator=(const Converted&) = delete;

  /// Makes `memory` the bytes of the file; those of a write are converted now.
  Failure begin(Memory& memory, bool write);
  /// After a read of so many bytes of the file: they go to the program's memory.
  Failure finish_read(std::uint64_t bytes);
  /// So many bytes of the file, as a status counts them.
  std::uint64_t native_bytes(std::uint64_t bytes) const;

 private:
  Failure convert(bool write, std::uint64_t bytes);
  Failure external32(bool write);
  std::uint64_t values_in(std::uint64_t bytes) const;

  const Representation& representation_;
  void* const buffer_;
  const MPI_Count count_;
  const MPI_Datatype type_;
  std::uint64_t native_ = 0;  // bytes of one element of the type in memory
  std::uint64_t stored_ = 0;  // the same in the file
  std::uint64_t values_ = 0;  // predefined values in one
  std::vector<char> bytes_;
};

}  // namespace spate::mpiio
