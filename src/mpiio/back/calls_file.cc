// SPDX-License-Identifier: Apache-2.0
// The functions of MPI for a file as a whole: open, close, names, sizes, hints.
#include <fcntl.h>

#include <cstring>

#include "mpiio/back/file.h"
#include "mpiio/back/file_systems.h"

using namespace spate::mpiio;

namespace {

/// Rank 0 runs `work` for all ranks, and every rank returns its result.
template <typename Work>
Failure by_rank_0(File& file, const std::string& what, const Work& work) {
  return agree(file, file.rank == 0 ? failure_of(work(), what) : Failure());
}

/// The name in the form that MPI's own functions understand: ROMIO knows the prefix "ufs:", OMPIO does not.
const char* own_name(const char* name) {
#ifdef OPEN_MPI
  if (name != nullptr && std::strncmp(name, "ufs:", 4) == 0) return name + 4;
#endif
  return name;
}

/// Checks a size that must be the same on all ranks, for a file that is open for writing.
Failure check_size(File& file, MPI_Offset size) {
  if (!all_same(file.comm, size)) return {MPI_ERR_NOT_SAME, "spate: the ranks give different sizes"};
  if (size < 0) return {MPI_ERR_ARG, "spate: a negative size"};
  if ((file.amode & MPI_MODE_RDONLY) != 0)
    return {MPI_ERR_READ_ONLY, "spate: " + file.path + " is open for reading only"};
  return {};
}

}  // namespace

SPATE_CALL spate_File_open(MPI_Comm comm, const char* name, int amode, MPI_Info info, MPI_File* handle) {
  bool ours = false;
  const Failure failure = open_file(comm, name, amode, info, handle, &ours);
  if (!ours)
    return SPATE_PASS_ON(File_open, (MPI_Comm, const char*, int, MPI_Info, MPI_File*), comm, own_name(name), amode,
                         info, handle);
  return failure.failed() ? raise_without_file(failure) : MPI_SUCCESS;
}

SPATE_CALL spate_File_close(MPI_File* handle) {
  if (handle == nullptr || find(*handle) == nullptr) return SPATE_PASS_ON(File_close, (MPI_File*), handle);
  const Failure failure = close_file(handle);
  return failure.failed() ? code_of(failure) : MPI_SUCCESS;
}

SPATE_CALL spate_File_delete(const char* name, MPI_Info info) {
  const auto place = resolve_here(name);
  if (!place) return SPATE_PASS_ON(File_delete, (const char*, MPI_Info), own_name(name), info);
  long outcome = 0;
  spate_fs* const fs = connect(place->config, &outcome);
  if (fs != nullptr) outcome = spate_unlink(fs, place->path.c_str());
  const Failure failure = failure_of(outcome, "delete " + place->path);
  return failure.failed() ? raise_without_file(failure) : MPI_SUCCESS;
}

SPATE_CALL spate_File_get_size(MPI_File handle, MPI_Offset* size) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_get_size, (MPI_File, MPI_Offset*), handle, size);
  struct stat st{};
  long outcome = open_own(*file);
  if (outcome == 0) outcome = spate_fstat(file->file, &st);
  *size = st.st_size;
  return result(*file, failure_of(outcome, "size of " + file->path));
}

SPATE_CALL spate_File_set_size(MPI_File handle, MPI_Offset size) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_set_size, (MPI_File, MPI_Offset), handle, size);
  Failure failure = check_size(*file, size);
  if (!failure.failed())
    failure = by_rank_0(*file, "set size of " + file->path, [&] { return spate_ftruncate(file->file, size); });
  return result(*file, failure);
}

SPATE_CALL spate_File_preallocate(MPI_File handle, MPI_Offset size) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_preallocate, (MPI_File, MPI_Offset), handle, size);
  Failure failure = check_size(*file, size);
  if (!failure.failed() && size > 0)
    failure = by_rank_0(*file, "allocate " + file->path, [&] { return spate_fallocate(file->file, 0, 0, size); });
  return result(*file, failure);
}

SPATE_CALL spate_File_sync(MPI_File handle) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_sync, (MPI_File), handle);
  // If this rank has not opened the file, it has written nothing.
  const long synced = file->file == nullptr ? 0 : spate_fsync(file->file);
  return result(*file, agree(*file, failure_of(synced, "sync " + file->path)));
}

SPATE_CALL spate_File_get_amode(MPI_File handle, int* amode) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_get_amode, (MPI_File, int*), handle, amode);
  *amode = file->amode;
  return MPI_SUCCESS;
}

SPATE_CALL spate_File_get_group(MPI_File handle, MPI_Group* group) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_get_group, (MPI_File, MPI_Group*), handle, group);
  return PMPI_Comm_group(file->comm, group);
}

SPATE_CALL spate_File_get_info(MPI_File handle, MPI_Info* info) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_get_info, (MPI_File, MPI_Info*), handle, info);
  *info = make_info(file->hints, file->echoed);
  return *info == MPI_INFO_NULL ? raise(file->shadow, {MPI_ERR_NO_MEM, "spate: no memory"}) : MPI_SUCCESS;
}

SPATE_CALL spate_File_set_info(MPI_File handle, MPI_Info info) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_set_info, (MPI_File, MPI_Info), handle, info);
  change_hints(*file, info);
  return MPI_SUCCESS;
}

SPATE_CALL spate_File_set_atomicity(MPI_File handle, int flag) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_set_atomicity, (MPI_File, int), handle, flag);
  if (!all_same(file->comm, flag == 0 ? 0 : 1))
    return raise(file->shadow, {MPI_ERR_NOT_SAME, "spate: the ranks give different atomicities"});
  wait_for_none_under_way(*file);
  file->atomic = flag != 0;
  return MPI_SUCCESS;
}

SPATE_CALL spate_File_get_atomicity(MPI_File handle, int* flag) {
  File* const file = find(handle);
  if (file == nullptr) return SPATE_PASS_ON(File_get_atomicity, (MPI_File, int*), handle, flag);
  *flag = file->atomic ? 1 : 0;
  return MPI_SUCCESS;
}
