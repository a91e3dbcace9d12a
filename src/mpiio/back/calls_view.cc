// SPDX-License-Identifier: Apache-2.0
// The functions of MPI for views and file pointers.
#include <cstring>

#include "mpiio/back/external32.h"
#include "mpiio/back/shared_pointer.h"

using namespace spate::mpiio;

namespace {

/// What MPI wants of a file type, as far as a description needs it: no byte before the displacement, never backwards.
bool can_be_a_file(const Flat& flat) {
  std::int64_t end = 0;
  for (const Piece& piece : flat.pieces()) {
    if (piece.offset < end) return false;
    end = piece.offset + static_cast<std::int64_t>(piece.size);
  }
  for (const Level& level : flat.levels()) {
    if (level.stride < 0) return false;
  }
  return flat.size() == 0 || flat.extent() > 0;
}

bool is_external32(const char* representation) { return std::strcmp(representation, "external32") == 0; }

Failure check_view(MPI_Offset displacement, MPI_Datatype etype, const Flat* flat, const char* representation) {
  if (representation == nullptr || (std::strcmp(representation, "native") != 0 &&
                                    std::strcmp(representation, "internal") != 0 && !is_external32(representation)))
    return {MPI_ERR_UNSUPPORTED_DATAREP, "spate: only the representations native, internal and external32 are taken"};
  if (displacement < 0) return {MPI_ERR_ARG, "spate: a negative displacement (MPI_DISPLACEMENT_CURRENT is not taken)"};
  if (etype == MPI_DATATYPE_NULL || flat == nullptr)
    return {MPI_ERR_TYPE, "spate: the file type is null or has too many pieces"};
  int bytes = 0;
  PMPI_Type_size(etype, &bytes);
  if (bytes <= 0 || flat->size() % static_cast<std::uint64_t>(bytes) != 0)
    return {MPI_ERR_ARG, "spate: a file type is made of a whole number of etypes"};
  if (is_external32(representation) && !same_size_in_external32(etype))
    return {MPI_ERR_UNSUPPORTED_DATAREP, "spate: the etype has another size in external32 than in memory"};
  if (!can_be_a_file(*flat)) return {MPI_ERR_ARG, "spate: the displacements of a file type ascend from 0"};
  return {};
}

/// The pointers begin anew with a view. Collective.
Failure reset_pointers(File& file) {
  file.position = 0;
  file.start = 0;
  const int used = file.pointer_file != nullptr ? 1 : 0;
  int any_used = 0;
  PMPI_Allreduce(&used, &any_used, 1, MPI_INT, MPI_MAX, file.comm);
  if (any_used == 0) return {};
  return agree(file, file.rank == 0 ? set_shared(file, 0) : Failure());
}

/// Etypes of the view that lie before the end of the file.
Failure end_of_file(File& file, std::uint64_t* etypes) {
  struct stat st{};
  const long outcome = spate_fstat(file.file, &st);
  if (outcome < 0) return failure_of(outcome, "size of " + file.path);
  const std::uint64_t bytes = stream_before(*file.view.flat, file.view.displacement, st.st_size);
  *etypes = (bytes + file.view.etype_bytes - 1) / file.view.etype_bytes;
  return {};
}

/// `base` is where the pointer is.
Failure seek_from(File& file, std::uint64_t base, MPI_Offset offset, int whence, std::uint64_t* position) {
  std::uint64_t from = 0;
  if (whence == MPI_SEEK_CUR) {
    from = base;
  } else if (whence == MPI_SEEK_END) {
    if (Failure failure = end_of_file(file, &from); failure.failed()) return failure;
  } else if (whence != MPI_SEEK_SET) {
    return {MPI_ERR_ARG, "spate: MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END is taken"};
  }
  if (__builtin_add_overflow(from, offset, position) || *position > INT64_MAX)
    return {MPI_ERR_ARG, "spate: a position before the beginning of the file"};
  return {};
}

}  // namespace

SPATE_CALL spate_File_set_view(MPI_File handle, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                               const char* representation, MPI_Info info) {
  File* const file = find(handle);
  if (file == nullptr)
    return SPATE_PASS_ON(File_set_view, (MPI_File, MPI_Offset, MPI_Datatype, MPI_Datatype, const char*, MPI_Info),
                         handle, displacement, etype, filetype, representation, info);
  const auto flat = filetype == MPI_DATATYPE_NULL ? nullptr : flat_of(filetype);
  Failure failure = agree(*file, check_view(displacement, etype, flat.get(), representation));
  if (failure.failed()) return raise(file->shadow, failure);
  int etype_bytes = 0;
  PMPI_Type_size(etype, &etype_bytes);
  if (!all_same(file->comm, etype_bytes))
    return raise(file->shadow, {MPI_ERR_NOT_SAME, "spate: the ranks give etypes of different sizes"});
  reset_view(file->view, displacement, etype, filetype, flat);
  file->view.external32 = is_external32(representation);
  change_hints(*file, info);
  return result(*file, reset_pointers(*file));
}

SPATE_CALL spate_File_get_view(MPI_File handle, MPI_Offset* displacement, MPI_Datatype* etype, MPI_Datatype* filetype,
                               char* representation) {
  File* const file = find(handle);
  if (file == nullptr)
    return SPATE_PASS_ON(File_get_view, (MPI_File, MPI_Offset*, MPI_Datatype*, MPI_Datatype*, char*), handle,
                         displacement, etype, filetype, representation);
  *displacement = file->view.displacement;
  *etype = copy_type(file->view.etype);
  *filetype = copy_type(file->view.filetype);
  std::strcpy(representation, file->view.external32 ? "external32" : "native");
  return MPI_SUCCESS;
}

SPATE_CALL spate_File_get_type_extent(MPI_File handle, MPI_Datatype type, MPI_Aint* extent) {
  File* const file = find(handle);
  if (file == nullptr)
    return SPATE_PASS_ON(File_get_type_extent, (MPI_File, MPI_Datatype, MPI_Aint*), handle, type, extent);
  MPI_Aint lb = 0;
  return PMPI_Type_get_extent(type, &lb, extent);
}

SPATE_CALL spate_File_get_type_extent_c(MPI_File handle, MPI_Datatype type, MPI_Count* extent) {
  File* const file = find(handle);
  if (file == nullptr)
    return SPATE_PASS_ON(File_get_type_extent_c, (MPI_File, MPI_Datatype, MPI_Count*), handle, type, extent);
  MPI_Count lb = 0;
  return PMPI_Type_get_extent_x(type, &lb, extent);
}

SPATE_CALL spate_File_seek(MPI_File handle, MPI_Offset offset, int whence) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_seek, (MPI_File, MPI_Offset, int), handle, offset, whence);
  const std::lock_guard lock(file->mutex);
  std::uint64_t position = 0;
  Failure failure = seek_from(*file, file->position, offset, whence, &position);
  if ((file->amode & MPI_MODE_SEQUENTIAL) != 0)
    failure = {MPI_ERR_UNSUPPORTED_OPERATION, "spate: no seeking with MPI_MODE_SEQUENTIAL"};
  if (!failure.failed()) file->position = position;
  return result(*file, failure);
}

SPATE_CALL spate_File_get_position(MPI_File handle, MPI_Offset* offset) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_get_position, (MPI_File, MPI_Offset*), handle, offset);
  const std::lock_guard lock(file->mutex);
  *offset = static_cast<MPI_Offset>(file->position);
  return MPI_SUCCESS;
}

SPATE_CALL spate_File_get_byte_offset(MPI_File handle, MPI_Offset offset, MPI_Offset* byte) {
  File* const file = find(handle);
  if (file == nullptr)
    return SPATE_PASS_ON(File_get_byte_offset, (MPI_File, MPI_Offset, MPI_Offset*), handle, offset, byte);
  if (offset < 0 || file->view.flat->size() == 0)
    return raise(file->shadow, {MPI_ERR_ARG, "spate: a negative offset, or a view without bytes"});
  *byte = file_offset(file->view, static_cast<std::uint64_t>(offset) * file->view.etype_bytes);
  return MPI_SUCCESS;
}

SPATE_CALL spate_File_seek_shared(MPI_File handle, MPI_Offset offset, int whence) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_seek_shared, (MPI_File, MPI_Offset, int), handle, offset, whence);
  if (!all_same(file->comm, offset) || !all_same(file->comm, whence))
    return raise(file->shadow, {MPI_ERR_NOT_SAME, "spate: the ranks seek to different places"});
  Failure failure;
  if (file->rank == 0) {
    std::uint64_t base = 0;
    std::uint64_t position = 0;
    failure = move_shared(*file, 0, &base);
    if (!failure.failed()) failure = seek_from(*file, base, offset, whence, &position);
    if (!failure.failed()) failure = set_shared(*file, position);
  }
  return result(*file, agree(*file, failure));
}

SPATE_CALL spate_File_get_position_shared(MPI_File handle, MPI_Offset* offset) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_get_position_shared, (MPI_File, MPI_Offset*), handle, offset);
  std::uint64_t position = 0;
  const Failure failure = move_shared(*file, 0, &position);
  *offset = static_cast<MPI_Offset>(position);
  return result(*file, failure);
}
