// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/representation.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <map>
#include <mutex>

#include "mpiio/back/types.h"

namespace spate::mpiio {
namespace {

constexpr char kExternal32[] = "external32";
/// How many elements of external32 are converted at a time. MPI counts them with an int.
constexpr MPI_Count kAtOnce = 1 << 20;

std::mutex known_mutex;
std::map<std::string, Representation>& known() {
  static auto& all = *new std::map<std::string, Representation>([] {
    std::map<std::string, Representation> first;
    for (const char* name : {"native", "internal"}) first[name].name = name;
    Representation& portable = first[kExternal32];
    portable.name = kExternal32;
    portable.converts = true;
    portable.bytes_of = [](MPI_Datatype type) -> std::optional<std::uint64_t> {
      // MPI_Pack_external_size returns another size for MPI_LONG than Open MPI 4.1 packs.
      const char zeros[64] = {};
      char packed[64];
      MPI_Aint bytes = 0;
      if (PMPI_Pack_external(kExternal32, zeros, 1, type, packed, sizeof packed, &bytes) != MPI_SUCCESS || bytes < 0)
        return std::nullopt;
      return static_cast<std::uint64_t>(bytes);
    };
    return first;
  }());
  return all;
}

/// How many values of predefined types one element of a type has.
std::uint64_t values_of(MPI_Datatype type, std::uint64_t bytes) {
  MPI_Status status;
  MPI_Count values = 0;
  PMPI_Status_set_elements_x(&status, MPI_BYTE, static_cast<MPI_Count>(bytes));
  PMPI_Get_elements_x(&status, type, &values);
  return values > 0 ? static_cast<std::uint64_t>(values) : 0;
}

}  // namespace

const Representation* find_representation(const char* name) {
  if (name == nullptr) return nullptr;
  const std::lock_guard lock(known_mutex);
  const auto found = known().find(name);
  return found == known().end() ? nullptr : &found->second;
}

Failure register_representation(Representation representation) {
  const std::lock_guard lock(known_mutex);
  const std::string name = representation.name;
  if (name.empty() || name.size() >= MPI_MAX_DATAREP_STRING)
    return {MPI_ERR_ARG, "spate: the name of a data representation has 1 to " +
                             std::to_string(MPI_MAX_DATAREP_STRING - 1) + " bytes"};
  if (!known().emplace(name, std::move(representation)).second)
    return {MPI_ERR_DUP_DATAREP, "spate: there is a data representation " + name + " already"};
  return {};
}

std::shared_ptr<const Flat> flat_in_file(MPI_Datatype type, const Representation& representation) {
  return representation.converts ? flat_with(type, representation.bytes_of) : flat_of(type);
}

Failure Converted::begin(Memory& memory, bool write) {
  if (memory.bytes == 0) return {};
  const auto stored = flat_in_file(type_, representation_);
  if (stored == nullptr)
    return {MPI_ERR_CONVERSION, "spate: " + representation_.name + " has no form for the type of the memory"};
  native_ = memory.flat->size();
  stored_ = stored->size();
  values_ = values_of(type_, native_);
  std::uint64_t bytes = 0;
  if (stored_ == 0 || __builtin_mul_overflow(stored_, static_cast<std::uint64_t>(count_), &bytes) || bytes > LONG_MAX)
    return {MPI_ERR_COUNT, "spate: more bytes than a file can have"};
  bytes_.resize(bytes);
  memory = {bytes_.data(), flat_of(MPI_BYTE), bytes};
  // external32 is converted back as a whole, including the part that a short read did not reach.
  return write || !representation_.registered ? convert(true, bytes) : Failure();
}

Failure Converted::finish_read(std::uint64_t bytes) { return bytes_.empty() ? Failure() : convert(false, bytes); }

std::uint64_t Converted::values_in(std::uint64_t bytes) const {
  return bytes / stored_ * values_ + bytes % stored_ * values_ / stored_;
}

std::uint64_t Converted::native_bytes(std::uint64_t bytes) const {
  if (bytes_.empty()) return bytes;
  return bytes / stored_ * native_ + bytes % stored_ * native_ / stored_;
}

Failure Converted::convert(bool write, std::uint64_t bytes) {
  if (!representation_.registered) return external32(write);
  const Representation::Convert& function = write ? representation_.write : representation_.read;
  int code = MPI_SUCCESS;
  if (function) {
    code = function(buffer_, type_, static_cast<MPI_Count>(values_in(bytes)), bytes_.data(), 0);
  } else if (native_ != stored_) {
    code = MPI_ERR_CONVERSION;
  } else {
    const Memory memory{static_cast<char*>(buffer_), flat_of(type_), bytes};
    if (write) gather(memory, 0, bytes, bytes_.data());
    if (!write) scatter(memory, 0, bytes, bytes_.data());
  }
  if (code == MPI_SUCCESS) return {};
  int error_class = MPI_ERR_CONVERSION;
  PMPI_Error_class(code, &error_class);
  return {error_class, "spate: the program's own functions for " + representation_.name + " refuse this"};
}

Failure Converted::external32(bool write) {
  MPI_Aint lb = 0;
  MPI_Aint extent = 0;
  PMPI_Type_get_extent(type_, &lb, &extent);
  const auto size = static_cast<MPI_Aint>(bytes_.size());
  MPI_Aint position = 0;
  for (MPI_Count done = 0; done < count_; done += kAtOnce) {
    const int count = static_cast<int>(std::min(kAtOnce, count_ - done));
    char* const part = static_cast<char*>(buffer_) + done * extent;
    const int code = write ? PMPI_Pack_external(kExternal32, part, count, type_, bytes_.data(), size, &position)
                           : PMPI_Unpack_external(kExternal32, bytes_.data(), size, &position, part, count, type_);
    if (code != MPI_SUCCESS)
      return {MPI_ERR_CONVERSION, "spate: the MPI library cannot convert this type to or from external32"};
  }
  return {};
}

}  // namespace spate::mpiio
