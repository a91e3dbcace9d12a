// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/talk.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace spate::mpiio {

/// Waits with pauses, which become longer: a thread that waits inside MPI takes a whole processor.
void Talk::wait(MPI_Request request) const {
  constexpr std::chrono::microseconds kFirstPause{10};
  constexpr std::chrono::microseconds kLongestPause{500};
  auto pause = kFirstPause;
  int done = 0;
  while (PMPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

void Talk::all_reduce(std::span<std::int64_t> values, MPI_Op op) const {
  const int count = static_cast<int>(values.size());
  if (by_ == By::kProgram) {
    PMPI_Allreduce(MPI_IN_PLACE, values.data(), count, MPI_INT64_T, op, comm_);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Iallreduce(MPI_IN_PLACE, values.data(), count, MPI_INT64_T, op, comm_, &request);
  wait(request);
}

void Talk::all_gather(const void* own, int count, MPI_Datatype type, void* all) const {
  if (by_ == By::kProgram) {
    PMPI_Allgather(own, count, type, all, count, type, comm_);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Iallgather(own, count, type, all, count, type, comm_, &request);
  wait(request);
}

void Talk::all_to_all(const void* out, int count, MPI_Datatype type, void* in) const {
  if (by_ == By::kProgram) {
    PMPI_Alltoall(out, count, type, in, count, type, comm_);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Ialltoall(out, count, type, in, count, type, comm_, &request);
  wait(request);
}

void Talk::all_to_all_v(const void* out, Parts of_out, MPI_Datatype type, void* in, Parts of_in) const {
  if (by_ == By::kProgram) {
    PMPI_Alltoallv(out, of_out.counts, of_out.starts, type, in, of_in.counts, of_in.starts, type, comm_);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Ialltoallv(out, of_out.counts, of_out.starts, type, in, of_in.counts, of_in.starts, type, comm_, &request);
  wait(request);
}

}  // namespace spate::mpiio
