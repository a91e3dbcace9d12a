// SPDX-License-Identifier: Apache-2.0
// The functions of MPI that move data.
#include "mpiio/back/collective.h"
#include "mpiio/back/external32.h"
#include "mpiio/back/shared_pointer.h"

namespace spate::mpiio {
namespace {

enum class Pointer { kExplicit, kIndividual, kShared, kOrdered };

struct Call {
  bool write = false;
  Pointer pointer = Pointer::kExplicit;
  bool together = false;
  MPI_Offset offset = 0;  // kExplicit: in etypes
  void* buffer = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type = MPI_BYTE;
};

Failure check(const File& file, const Call& call, Memory& memory) {
  if (call.write && (file.amode & MPI_MODE_RDONLY) != 0)
    return {MPI_ERR_READ_ONLY, "spate: " + file.path + " is open for reading only"};
  if (!call.write && (file.amode & MPI_MODE_WRONLY) != 0)
    return {MPI_ERR_ACCESS, "spate: " + file.path + " is open for writing only"};
  if ((file.amode & MPI_MODE_SEQUENTIAL) != 0 &&
      (call.pointer == Pointer::kExplicit || call.pointer == Pointer::kIndividual))
    return {MPI_ERR_UNSUPPORTED_OPERATION, "spate: with MPI_MODE_SEQUENTIAL only the shared pointer is used"};
  if (call.offset < 0) return {MPI_ERR_ARG, "spate: a negative offset"};
  if (Failure failure = memory_of(call.buffer, call.count, call.type, memory); failure.failed()) return failure;
  if (memory.bytes % file.view.etype_bytes != 0)
    return {MPI_ERR_IO, "spate: an access is a whole number of the view's etypes"};
  if (memory.bytes > 0 && file.view.flat->size() == 0) return {MPI_ERR_IO, "spate: the view shows no byte of the file"};
  return {};
}

/// Where the access begins in the view, in etypes; moves the pointer that it goes by.
Failure place(File& file, const Call& call, std::uint64_t etypes, std::uint64_t* first) {
  *first = static_cast<std::uint64_t>(call.offset);
  if (call.pointer == Pointer::kShared) return move_shared(file, etypes, first);
  if (call.pointer != Pointer::kIndividual) return {};
  const std::lock_guard lock(file.mutex);
  *first = file.position;
  file.position += etypes;
  return {};
}

/// One rank moves the shared pointer for all.
Failure place_in_order(File& file, std::uint64_t etypes, std::uint64_t* first) {
  std::uint64_t before = 0;
  PMPI_Exscan(&etypes, &before, 1, MPI_UINT64_T, MPI_SUM, file.comm);
  if (file.rank == 0) before = 0;
  std::uint64_t answer[2] = {0, 0};
  const int last = file.ranks - 1;
  Failure failure;
  if (file.rank == last) {
    failure = move_shared(file, before + etypes, &answer[0]);
    answer[1] = static_cast<std::uint64_t>(failure.error_class);
  }
  PMPI_Bcast(answer, 2, MPI_UINT64_T, last, file.comm);
  *first = answer[0] + before;
  if (answer[1] != 0 && !failure.failed())
    failure = {static_cast<int>(answer[1]), "spate: shared pointer of " + file.path};
  return failure;
}

Moved move(File& file, const Call& call) {
  Memory memory;
  Failure failure = check(file, call, memory);
  External32 converted(call.buffer, call.count, call.type);
  if (file.view.external32 && !failure.failed()) failure = converted.begin(memory);
  if (failure.failed()) memory = Memory{nullptr, file.view.flat, 0};
  const std::uint64_t etypes = memory.bytes / file.view.etype_bytes;
  std::uint64_t first = 0;
  if (call.pointer == Pointer::kOrdered) {
    const Failure placed = place_in_order(file, etypes, &first);
    if (!failure.failed()) failure = placed;
  } else if (!failure.failed()) {
    failure = place(file, call, etypes, &first);
  }
  std::uint64_t byte = 0;
  if (!failure.failed() && (__builtin_mul_overflow(first, file.view.etype_bytes, &byte) || byte > INT64_MAX))
    failure = {MPI_ERR_ARG, "spate: an offset beyond what a file can have"};
  Moved moved{0, failure};
  if (call.together) {
    moved = transfer_together(file, call.write, byte, memory, failure);
  } else if (!failure.failed()) {
    moved.bytes = transfer(file, call.write, byte, memory);
    moved.failure = failure_of(moved.bytes, (call.write ? "write " : "read ") + file.path);
  }
  if (file.view.external32 && !call.write && !moved.failure.failed()) moved.failure = converted.finish_read();
  return moved;
}

void set_status(MPI_Status* status, long bytes) {
  if (status == MPI_STATUS_IGNORE) return;
  PMPI_Status_set_elements_x(status, MPI_BYTE, std::max<long>(bytes, 0));
  PMPI_Status_set_cancelled(status, 0);
}

int blocking(File& file, const Call& call, MPI_Status* status) {
  const Moved moved = move(file, call);
  set_status(status, moved.bytes);
  return moved.failure.failed() ? raise(file.shadow, moved.failure) : MPI_SUCCESS;
}

/// What a request that has ended tells. Freed with the request.
struct Ended {
  long bytes = 0;
  int code = MPI_SUCCESS;
};

int query(void* state, MPI_Status* status) {
  const auto* const ended = static_cast<Ended*>(state);
  set_status(status, ended->bytes);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return ended->code;
}
int free_ended(void* state) {
  delete static_cast<Ended*>(state);
  return MPI_SUCCESS;
}
int cancel(void*, int) { return MPI_SUCCESS; }

/// The access is made before the call returns; other ranks are not waited for, so it may be called where no rank is
/// in the same call.
int nonblocking(File& file, Call call, MPI_Request* request) {
  call.together = false;
  const Moved moved = move(file, call);
  auto ended = std::make_unique<Ended>();
  ended->bytes = moved.bytes;
  if (moved.failure.failed()) ended->code = raise(file.shadow, moved.failure);
  const int started = PMPI_Grequest_start(query, free_ended, cancel, ended.get(), request);
  if (started != MPI_SUCCESS) return started;
  ended.release();
  return PMPI_Grequest_complete(*request);
}

/// Split collective accesses are made by their beginning.
int begin(File& file, const Call& call) {
  {
    const std::lock_guard lock(file.mutex);
    if (file.split) return raise(file.shadow, {MPI_ERR_OTHER, "spate: a split collective access has not been ended"});
    file.split = 0;
  }
  const Moved moved = move(file, call);
  const std::lock_guard lock(file.mutex);
  file.split = moved.bytes;
  return moved.failure.failed() ? raise(file.shadow, moved.failure) : MPI_SUCCESS;
}

int end(File& file, MPI_Status* status) {
  const std::lock_guard lock(file.mutex);
  if (!file.split) return raise(file.shadow, {MPI_ERR_OTHER, "spate: no split collective access was begun"});
  set_status(status, *file.split);
  file.split.reset();
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace spate::mpiio

using namespace spate::mpiio;

// Each function for counts of int and of MPI_Count. Buffer: void or const void. Last: what the function ends with.
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
SPATE_BOTH_DATA(File_iread, void, false, kIndividual, false, MPI_Request*, nonblocking)
SPATE_BOTH_DATA(File_iread_all, void, false, kIndividual, true, MPI_Request*, nonblocking)
SPATE_BOTH_DATA(File_iread_shared, void, false, kShared, false, MPI_Request*, nonblocking)
SPATE_BOTH_DATA(File_iwrite, const void, true, kIndividual, false, MPI_Request*, nonblocking)
SPATE_BOTH_DATA(File_iwrite_all, const void, true, kIndividual, true, MPI_Request*, nonblocking)
SPATE_BOTH_DATA(File_iwrite_shared, const void, true, kShared, false, MPI_Request*, nonblocking)

SPATE_BOTH_AT(File_read_at, void, false, false, MPI_Status*, blocking)
SPATE_BOTH_AT(File_read_at_all, void, false, true, MPI_Status*, blocking)
SPATE_BOTH_AT(File_write_at, const void, true, false, MPI_Status*, blocking)
SPATE_BOTH_AT(File_write_at_all, const void, true, true, MPI_Status*, blocking)
SPATE_BOTH_AT(File_iread_at, void, false, false, MPI_Request*, nonblocking)
SPATE_BOTH_AT(File_iread_at_all, void, false, true, MPI_Request*, nonblocking)
SPATE_BOTH_AT(File_iwrite_at, const void, true, false, MPI_Request*, nonblocking)
SPATE_BOTH_AT(File_iwrite_at_all, const void, true, true, MPI_Request*, nonblocking)

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
