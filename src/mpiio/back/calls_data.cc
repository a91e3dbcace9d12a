// SPDX-License-Identifier: Apache-2.0
// The functions of MPI that move data.
#include "mpiio/back/data_call.h"

namespace spate::mpiio {
namespace {

int blocking(File& file, const Call& call, MPI_Status* status) {
  DataCall data(file, call);
  data.run();
  set_status(status, data.bytes());
  return result(file, data.failure());
}

/// The begin of a split collective access makes the whole access. This rank takes part even if its arguments are wrong,
/// so that other ranks do not wait for it.
int begin(File& file, const Call& call) {
  Failure failure;
  {
    const std::lock_guard lock(file.mutex);
    if (file.split) failure = {MPI_ERR_OTHER, "spate: a split collective access has not been ended"};
  }
  DataCall data(file, call);
  data.run(std::move(failure));
  if (data.failure().failed()) return result(file, data.failure());
  const std::lock_guard lock(file.mutex);
  file.split = data.bytes();
  return MPI_SUCCESS;
}

int end(File& file, MPI_Status* status) {
  std::optional<long> moved;
  {
    const std::lock_guard lock(file.mutex);
    moved.swap(file.split);
  }
  if (!moved) return raise(file.shadow, {MPI_ERR_OTHER, "spate: no split collective access was begun"});
  set_status(status, *moved);
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace spate::mpiio

using namespace spate::mpiio;

// Defines each function twice, with counts of int and of MPI_Count. Buffer: void or const void. Last: type of the last
// parameter.
#define SPATE_DATA(name, Count, Buffer, write, pointer, together, Last, how)                                         \
  SPATE_CALL spate_##name(MPI_File handle, Buffer* buffer, Count count, MPI_Datatype type, Last last) {              \
    File* const file = find(handle);                                                                                 \
    if (file == nullptr)                                                                                             \
      return SPATE_PASS_ON(name, (MPI_File, Buffer*, Count, MPI_Datatype, Last), handle, buffer, count, type, last); \
    return how(*file, {write, Pointer::pointer, together, 0, const_cast<void*>(buffer), count, type}, last);         \
  }
#define SPATE_DATA_AT(name, Count, Buffer, write, together, Last, how)                                               \
  SPATE_CALL spate_##name(MPI_File handle, MPI_Offset offset, Buffer* buffer, Count count, MPI_Datatype type,        \
                          Last last) {                                                                               \
    File* const file = find(handle);                                                                                 \
    if (file == nullptr)                                                                                             \
      return SPATE_PASS_ON(name, (MPI_File, MPI_Offset, Buffer*, Count, MPI_Datatype, Last), handle, offset, buffer, \
                           count, type, last);                                                                       \
    return how(*file, {write, Pointer::kExplicit, together, offset, const_cast<void*>(buffer), count, type}, last);  \
  }
#define SPATE_BEGIN(name, Count, Buffer, write, pointer)                                                 \
  SPATE_CALL spate_##name(MPI_File handle, Buffer* buffer, Count count, MPI_Datatype type) {             \
    File* const file = find(handle);                                                                     \
    if (file == nullptr)                                                                                 \
      return SPATE_PASS_ON(name, (MPI_File, Buffer*, Count, MPI_Datatype), handle, buffer, count, type); \
    return begin(*file, {write, Pointer::pointer, true, 0, const_cast<void*>(buffer), count, type});     \
  }
#define SPATE_BEGIN_AT(name, Count, Buffer, write)                                                                    \
  SPATE_CALL spate_##name(MPI_File handle, MPI_Offset offset, Buffer* buffer, Count count, MPI_Datatype type) {       \
    File* const file = find(handle);                                                                                  \
    if (file == nullptr)                                                                                              \
      return SPATE_PASS_ON(name, (MPI_File, MPI_Offset, Buffer*, Count, MPI_Datatype), handle, offset, buffer, count, \
                           type);                                                                                     \
    return begin(*file, {write, Pointer::kExplicit, true, offset, const_cast<void*>(buffer), count, type});           \
  }
#define SPATE_END(name, Buffer)                                                                                \
  SPATE_CALL spate_##name(MPI_File handle, Buffer* buffer, MPI_Status* status) {                               \
    File* const file = find(handle);                                                                           \
    if (file == nullptr) return SPATE_PASS_ON(name, (MPI_File, Buffer*, MPI_Status*), handle, buffer, status); \
    return end(*file, status);                                                                                 \
  }

#define SPATE_BOTH_DATA(name, ...) SPATE_DATA(name, int, __VA_ARGS__) SPATE_DATA(name##_c, MPI_Count, __VA_ARGS__)
#define SPATE_BOTH_AT(name, ...) SPATE_DATA_AT(name, int, __VA_ARGS__) SPATE_DATA_AT(name##_c, MPI_Count, __VA_ARGS__)
#define SPATE_BOTH_BEGIN(name, ...) SPATE_BEGIN(name, int, __VA_ARGS__) SPATE_BEGIN(name##_c, MPI_Count, __VA_ARGS__)
#define SPATE_BOTH_BEGIN_AT(name, ...) \
  SPATE_BEGIN_AT(name, int, __VA_ARGS__) SPATE_BEGIN_AT(name##_c, MPI_Count, __VA_ARGS__)

SPATE_BOTH_DATA(File_read, void, false, kIndividual, false, MPI_Status*, blocking)
SPATE_BOTH_DATA(File_read_all, void, false, kIndividual, true, MPI_Status*, blocking)
SPATE_BOTH_DATA(File_read_shared, void, false, kShared, false, MPI_Status*, blocking)
SPATE_BOTH_DATA(File_read_ordered, void, false, kOrdered, true, MPI_Status*, blocking)
SPATE_BOTH_DATA(File_write, const void, true, kIndividual, false, MPI_Status*, blocking)
SPATE_BOTH_DATA(File_write_all, const void, true, kIndividual, true, MPI_Status*, blocking)
SPATE_BOTH_DATA(File_write_shared, const void, true, kShared, false, MPI_Status*, blocking)
SPATE_BOTH_DATA(File_write_ordered, const void, true, kOrdered, true, MPI_Status*, blocking)
SPATE_BOTH_DATA(File_iread, void, false, kIndividual, false, MPI_Request*, start_request)
SPATE_BOTH_DATA(File_iread_all, void, false, kIndividual, true, MPI_Request*, start_request)
SPATE_BOTH_DATA(File_iread_shared, void, false, kShared, false, MPI_Request*, start_request)
SPATE_BOTH_DATA(File_iwrite, const void, true, kIndividual, false, MPI_Request*, start_request)
SPATE_BOTH_DATA(File_iwrite_all, const void, true, kIndividual, true, MPI_Request*, start_request)
SPATE_BOTH_DATA(File_iwrite_shared, const void, true, kShared, false, MPI_Request*, start_request)

SPATE_BOTH_AT(File_read_at, void, false, false, MPI_Status*, blocking)
SPATE_BOTH_AT(File_read_at_all, void, false, true, MPI_Status*, blocking)
SPATE_BOTH_AT(File_write_at, const void, true, false, MPI_Status*, blocking)
SPATE_BOTH_AT(File_write_at_all, const void, true, true, MPI_Status*, blocking)
SPATE_BOTH_AT(File_iread_at, void, false, false, MPI_Request*, start_request)
SPATE_BOTH_AT(File_iread_at_all, void, false, true, MPI_Request*, start_request)
SPATE_BOTH_AT(File_iwrite_at, const void, true, false, MPI_Request*, start_request)
SPATE_BOTH_AT(File_iwrite_at_all, const void, true, true, MPI_Request*, start_request)

SPATE_BOTH_BEGIN(File_read_all_begin, void, false, kIndividual)
SPATE_BOTH_BEGIN(File_read_ordered_begin, void, false, kOrdered)
SPATE_BOTH_BEGIN(File_write_all_begin, const void, true, kIndividual)
SPATE_BOTH_BEGIN(File_write_ordered_begin, const void, true, kOrdered)
SPATE_BOTH_BEGIN_AT(File_read_at_all_begin, void, false)
SPATE_BOTH_BEGIN_AT(File_write_at_all_begin, const void, true)
SPATE_END(File_read_all_end, void)
SPATE_END(File_read_at_all_end, void)
SPATE_END(File_read_ordered_end, void)
SPATE_END(File_write_all_end, const void)
SPATE_END(File_write_at_all_end, const void)
SPATE_END(File_write_ordered_end, const void)
