// SPDX-License-Identifier: Apache-2.0
// The functions of MPI for views and file pointers.
#include <cstring>

#include "mpiio/back/access.h"
#include "mpiio/back/representation.h"
#include "mpiio/back/shared_pointer.h"

using namespace spate::mpiio;

namespace {

/// Checks the order of a file type's bytes, and notes it in the view. MPI allows bytes that overlap or go back for
/// reading only: they would be written more than once.
Failure check_order(const File& file, View& view) {
  const auto true_extent = view.flat->true_extent();
  if (!true_extent || true_extent->begin < 0 || (view.flat->size() > 0 && view.flat->extent() <= 0))
    return {MPI_ERR_ARG, "spate: the bytes of a file type lie between 0 and 2^63, and its extent is not zero"};
  view.true_extent = *true_extent;
  view.ascends = view.flat->ascends();
  view.apart = true_extent->end - true_extent->begin <= view.flat->extent();
  if (view.ascends || (file.amode & MPI_MODE_RDONLY) != 0) return {};
  return {MPI_ERR_ARG, "spate: the bytes of a file type ascend in a file that is open for writing"};
}

/// Makes the view that the arguments describe. Its types still belong to the caller.
Failure make_view(const File& file, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
                  const char* name, View& view) {
  const Representation* const representation = find_representation(name);
  if (representation == nullptr)
    return {MPI_ERR_UNSUPPORTED_DATAREP, "spate: there is no data representation of that name"};
  if (displacement < 0) return {MPI_ERR_ARG, "spate: a negative displacement"};
  if (etype == MPI_DATATYPE_NULL || filetype == MPI_DATATYPE_NULL) return {MPI_ERR_TYPE, "spate: MPI_DATATYPE_NULL"};
  const auto element = flat_in_file(etype, *representation);
  const auto flat = flat_in_file(filetype, *representation);
  if (element == nullptr || flat == nullptr)
    return {MPI_ERR_TYPE, "spate: a type of the view has too many pieces, or no form in " + representation->name};
  if (element->size() == 0 || flat->size() % element->size() != 0)
    return {MPI_ERR_ARG, "spate: a file type is made of a whole number of etypes"};
  view.displacement = displacement;
  view.etype = etype;
  view.filetype = filetype;
  view.flat = flat;
  view.etype_bytes = element->size();
  view.representation = representation;
  return check_order(file, view);
}

/// Sets *displacement to what MPI_DISPLACEMENT_CURRENT means.
Failure current_displacement(File& file, MPI_Offset* displacement) {
  if ((file.amode & MPI_MODE_SEQUENTIAL) == 0)
    return {MPI_ERR_ARG, "spate: MPI_DISPLACEMENT_CURRENT goes with MPI_MODE_SEQUENTIAL only"};
  std::uint64_t position = 0;
  Failure failure = move_shared(file, 0, &position);
  if (!failure.failed() && file.view.flat->size() > 0)
    *displacement = file_offset(file.view, position * file.view.etype_bytes);
  return failure;
}

Failure extent_in_file(const File& file, MPI_Datatype type, MPI_Count* extent) {
  const auto flat = type == MPI_DATATYPE_NULL ? nullptr : flat_in_file(type, *file.view.representation);
  if (flat == nullptr) return {MPI_ERR_TYPE, "spate: the type has no form in " + file.view.representation->name};
  *extent = flat->extent();
  return {};
}

/// Sets the file pointers to 0, as for a new view. Collective.
Failure reset_pointers(File& file) {
  file.position = 0;
  file.start = 0;
  const int used = file.pointer_file != nullptr ? 1 : 0;
  int any_used = 0;
  PMPI_Allreduce(&used, &any_used, 1, MPI_INT, MPI_MAX, file.comm);
  if (any_used == 0) return {};
  return agree(file, file.rank == 0 ? set_shared(file, 0) : Failure());
}

/// Sets *etypes to the number of etypes of the view before the end of the file.
Failure end_of_file(File& file, std::uint64_t* etypes) {
  struct stat st{};
  long outcome = open_own(file);
  if (outcome == 0) outcome = spate_fstat(file.file, &st);
  if (outcome < 0) return failure_of(outcome, "size of " + file.path);
  *etypes = stream_before(*file.view.flat, file.view.displacement, st.st_size, file.view.etype_bytes);
  return {};
}

/// Sets *position to the new place of a file pointer. `base`: the pointer's present place.
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
  View view;
  Failure failure;
  if (displacement == MPI_DISPLACEMENT_CURRENT) failure = current_displacement(*file, &displacement);
  if (!failure.failed()) failure = make_view(*file, displacement, etype, filetype, representation, view);
  failure = agree(*file, failure);
  if (failure.failed()) return raise(file->shadow, failure);
  const std::int64_t hash = hash_of(view.representation->name);
  const bool same = all_same(file->comm, static_cast<std::int64_t>(view.etype_bytes));
  if (!all_same(file->comm, hash) || !same)
    return raise(file->shadow,
                 {MPI_ERR_NOT_SAME, "spate: the ranks give etypes of different sizes, or representations"});
  replace_view(file->view, std::move(view));
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
  std::strcpy(representation, file->view.representation->name.c_str());
  return MPI_SUCCESS;
}

SPATE_CALL spate_File_get_type_extent(MPI_File handle, MPI_Datatype type, MPI_Aint* extent) {
  File* const file = find(handle);
  if (file == nullptr)
    return SPATE_PASS_ON(File_get_type_extent, (MPI_File, MPI_Datatype, MPI_Aint*), handle, type, extent);
  MPI_Count in_file = 0;
  const Failure failure = extent_in_file(*file, type, &in_file);
  *extent = static_cast<MPI_Aint>(in_file);
  return result(*file, failure);
}

SPATE_CALL spate_File_get_type_extent_c(MPI_File handle, MPI_Datatype type, MPI_Count* extent) {
  File* const file = find(handle);
  if (file == nullptr)
    return SPATE_PASS_ON(File_get_type_extent_c, (MPI_File, MPI_Datatype, MPI_Count*), handle, type, extent);
  return result(*file, extent_in_file(*file, type, extent));
}

SPATE_CALL spate_File_seek(MPI_File handle, MPI_Offset offset, int whence) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_seek, (MPI_File, MPI_Offset, int), handle, offset, whence);
  if ((file->amode & MPI_MODE_SEQUENTIAL) != 0)
    return raise(file->shadow, {MPI_ERR_UNSUPPORTED_OPERATION, "spate: no seeking with MPI_MODE_SEQUENTIAL"});
  Failure failure;
  {
    const std::lock_guard lock(file->mutex);
    std::uint64_t position = 0;
    failure = seek_from(*file, file->position, offset, whence, &position);
    if (!failure.failed()) file->position = position;
  }
  return result(*file, failure);  // outside of the lock, because the program's error handler may use the file
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
  std::uint64_t position = 0;
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(offset), file->view.etype_bytes, &position) ||
      !in_reach(file->view, position))
    return raise(file->shadow, {MPI_ERR_ARG, "spate: an offset beyond what a file can have"});
  *byte = file_offset(file->view, position);
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
