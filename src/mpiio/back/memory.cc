// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/memory.h"

#include <climits>
#include <cstring>

namespace spate::mpiio {

char* Memory::whole() const {
  if (flat->dense()) return base + flat->pieces().front().offset;
  Walk walk(*flat, 0, 0, bytes);
  const auto run = walk.next();
  return run && run->size == bytes ? base + run->offset : nullptr;
}

Failure memory_of(void* buffer, MPI_Count count, MPI_Datatype type, Memory& out) {
  if (count < 0) return {MPI_ERR_COUNT, "spate: a negative count"};
  if (type == MPI_DATATYPE_NULL) return {MPI_ERR_TYPE, "spate: MPI_DATATYPE_NULL"};
  out.base = static_cast<char*>(buffer);
  out.flat = flat_of(type);
  if (out.flat == nullptr) return {MPI_ERR_TYPE, "spate: the type of the memory has too many pieces"};
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(out.flat->size(), static_cast<std::uint64_t>(count), &bytes) || bytes > LONG_MAX)
    return {MPI_ERR_COUNT, "spate: more bytes than a file can have"};
  out.bytes = bytes;
  return {};
}

void gather(const Memory& memory, std::uint64_t first, std::uint64_t size, char* out) {
  Walk walk(*memory.flat, 0, first, size);
  while (const auto run = walk.next()) {
    std::memcpy(out, memory.base + run->offset, run->size);
    out += run->size;
  }
}

void scatter(const Memory& memory, std::uint64_t first, std::uint64_t size, const char* from) {
  Walk walk(*memory.flat, 0, first, size);
  while (const auto run = walk.next()) {
    std::memcpy(memory.base + run->offset, from, run->size);
    from += run->size;
  }
}

}  // namespace spate::mpiio
