// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/external32.h"

#include <algorithm>

#include "mpiio/back/types.h"

namespace spate::mpiio {
namespace {

constexpr char kName[] = "external32";
/// MPI counts elements with an int.
constexpr MPI_Count kAtOnce = 1 << 20;

}  // namespace

bool same_size_in_external32(MPI_Datatype type) {
  MPI_Aint packed = 0;
  MPI_Count native = 0;
  return PMPI_Pack_external_size(kName, 1, type, &packed) == MPI_SUCCESS &&
         PMPI_Type_size_x(type, &native) == MPI_SUCCESS && packed == native;
}

template <typename Convert>
Failure External32::convert(const Convert& convert_part) {
  MPI_Aint lb = 0;
  MPI_Aint extent = 0;
  PMPI_Type_get_extent(type_, &lb, &extent);
  MPI_Aint position = 0;
  for (MPI_Count done = 0; done < count_; done += kAtOnce) {
    const int count = static_cast<int>(std::min(kAtOnce, count_ - done));
    char* const part = static_cast<char*>(buffer_) + done * extent;
    if (convert_part(part, count, &position) != MPI_SUCCESS)
      return {MPI_ERR_CONVERSION, "spate: the MPI library cannot convert this type to or from external32"};
  }
  return {};
}

Failure External32::begin(Memory& memory) {
  if (memory.bytes == 0) return {};
  if (!same_size_in_external32(type_))
    return {MPI_ERR_CONVERSION, "spate: types of another size in external32 than in memory are not converted"};
  bytes_.resize(memory.bytes);
  const auto size = static_cast<MPI_Aint>(bytes_.size());
  const Failure failure = convert([&](char* part, int count, MPI_Aint* position) {
    return PMPI_Pack_external(kName, part, count, type_, bytes_.data(), size, position);
  });
  if (!failure.failed()) memory = {bytes_.data(), flat_of(MPI_BYTE), memory.bytes};
  return failure;
}

Failure External32::finish_read() {
  if (bytes_.empty()) return {};
  const auto size = static_cast<MPI_Aint>(bytes_.size());
  return convert([&](char* part, int count, MPI_Aint* position) {
    return PMPI_Unpack_external(kName, bytes_.data(), size, position, part, count, type_);
  });
}

}  // namespace spate::mpiio
