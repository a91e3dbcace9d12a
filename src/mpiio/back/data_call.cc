// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/data_call.h"

#include "mpiio/back/access.h"
#include "mpiio/back/shared_pointer.h"

namespace spate::mpiio {

Failure DataCall::check() {
  if (call_.write && (file_.amode & MPI_MODE_RDONLY) != 0)
    return {MPI_ERR_READ_ONLY, "spate: " + file_.path + " is open for reading only"};
  if (!call_.write && (file_.amode & MPI_MODE_WRONLY) != 0)
    return {MPI_ERR_ACCESS, "spate: " + file_.path + " is open for writing only"};
  if ((file_.amode & MPI_MODE_SEQUENTIAL) != 0 &&
      (call_.pointer == Pointer::kExplicit || call_.pointer == Pointer::kIndividual))
    return {MPI_ERR_UNSUPPORTED_OPERATION, "spate: with MPI_MODE_SEQUENTIAL only the shared pointer is used"};
  if (call_.offset < 0) return {MPI_ERR_ARG, "spate: a negative offset"};
  if (Failure failure = memory_of(call_.buffer, call_.count, call_.type, memory_); failure.failed()) return failure;
  if (file_.view.representation->converts) {
    converted_.emplace(*file_.view.representation, call_.buffer, call_.count, call_.type);
    if (Failure failure = converted_->begin(memory_, call_.write); failure.failed()) return failure;
  }
  if (memory_.bytes % file_.view.etype_bytes != 0)
    return {MPI_ERR_IO, "spate: an access is a whole number of the view's etypes"};
  if (memory_.bytes > 0 && file_.view.flat->size() == 0)
    return {MPI_ERR_IO, "spate: the view shows no byte of the file"};
  return {};
}

/// Sets *first to the begin of the access in the view, in etypes, and moves the file pointer that the call uses.
Failure DataCall::place(std::uint64_t etypes, std::uint64_t* first) {
  *first = static_cast<std::uint64_t>(call_.offset);
  if (call_.pointer == Pointer::kShared) return move_shared(file_, etypes, first);
  if (call_.pointer != Pointer::kIndividual) return {};
  const std::lock_guard lock(file_.mutex);
  *first = file_.position;
  file_.position += etypes;
  return {};
}

/// As place(), for kOrdered: one rank moves the shared pointer for all.
Failure DataCall::place_in_order(std::uint64_t etypes, std::uint64_t* first) {
  std::uint64_t before = 0;
  PMPI_Exscan(&etypes, &before, 1, MPI_UINT64_T, MPI_SUM, file_.comm);
  if (file_.rank == 0) before = 0;
  std::uint64_t answer[2] = {0, 0};
  const int last = file_.ranks - 1;
  Failure failure;
  if (file_.rank == last) {
    failure = move_shared(file_, before + etypes, &answer[0]);
    answer[1] = static_cast<std::uint64_t>(failure.error_class);
  }
  PMPI_Bcast(answer, 2, MPI_UINT64_T, last, file_.comm);
  *first = answer[0] + before;
  if (answer[1] != 0 && !failure.failed())
    failure = {static_cast<int>(answer[1]), "spate: shared pointer of " + file_.path};
  return failure;
}

void DataCall::prepare(Failure failure) {
  failure_ = failure.failed() ? std::move(failure) : check();
  if (failure_.failed()) memory_ = Memory{nullptr, file_.view.flat, 0};
  const std::uint64_t etypes = memory_.bytes / file_.view.etype_bytes;
  std::uint64_t first = 0;
  if (call_.pointer == Pointer::kOrdered) {
    Failure placed = place_in_order(etypes, &first);
    if (!failure_.failed()) failure_ = std::move(placed);
  } else if (!failure_.failed()) {
    failure_ = place(etypes, &first);
  }
  if (failure_.failed()) return;
  bool beyond = __builtin_mul_overflow(first, file_.view.etype_bytes, &first_) || first_ > INT64_MAX;
  beyond = beyond || (memory_.bytes > 0 && !range_of(file_.view, first_, memory_.bytes));
  if (beyond) failure_ = {MPI_ERR_ARG, "spate: an offset beyond what a file can have"};
}

void DataCall::move_alone() {
  if (failure_.failed()) return;
  bytes_ = transfer(file_, call_.write, first_, memory_);
  if (bytes_ < 0) failure_ = failure_of(bytes_, (call_.write ? "write " : "read ") + file_.path);
}

void DataCall::move_together(const Communicator& communicator) {
  CollectiveResult moved = transfer_collectively({file_, communicator, call_.write, first_, memory_}, failure_);
  bytes_ = moved.bytes;
  failure_ = std::move(moved.failure);
}

void DataCall::finish() {
  if (!converted_ || failure_.failed()) return;
  const auto moved = static_cast<std::uint64_t>(bytes_);
  if (!call_.write) failure_ = converted_->finish_read(moved);
  bytes_ = static_cast<long>(converted_->native_bytes(moved));
}

void DataCall::run(Failure failure) {
  prepare(std::move(failure));
  if (call_.together) {
    move_together(Communicator(file_.comm, Communicator::Thread::kProgram));
  } else {
    move_alone();
  }
  finish();
}

void set_status(MPI_Status* status, long bytes) {
  if (status == MPI_STATUS_IGNORE) return;
  PMPI_Status_set_elements_x(status, MPI_BYTE, std::max<long>(bytes, 0));
  PMPI_Status_set_cancelled(status, 0);
}

}  // namespace spate::mpiio
