// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/communicator.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace spate::mpiio {

namespace {

using Microseconds = std::chrono::microseconds;

/// A rank that waits in a call of MPICH polls and keeps its processor, even if another rank or a server needs it to get
/// on. Open MPI gives it away where there are more ranks than processors.
#ifdef MPICH_VERSION
constexpr bool kKeepsProcessor = true;
#else
constexpr bool kKeepsProcessor = false;
#endif

}  // namespace

bool Communicator::waits_inside_mpi() const { return thread_ == Thread::kProgram && !kKeepsProcessor; }

/// Waits with pauses, which become longer. The program's own thread polls at first, since it has nothing else to do.
void Communicator::wait(MPI_Request request) const {
  constexpr Microseconds kPolling{50};
  const Microseconds longest = thread_ == Thread::kProgram ? Microseconds{50} : Microseconds{500};
  Microseconds pause{10};
  int done = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (PMPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
    if (thread_ == Thread::kProgram && std::chrono::steady_clock::now() - begin < kPolling) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, longest);
  }
}

void Communicator::all_reduce(std::span<std::int64_t> values, MPI_Op op) const {
  const int count = static_cast<int>(values.size());
  if (waits_inside_mpi()) {
    PMPI_Allreduce(MPI_IN_PLACE, values.data(), count, MPI_INT64_T, op, comm_);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Iallreduce(MPI_IN_PLACE, values.data(), count, MPI_INT64_T, op, comm_, &request);
  wait(request);
}

void Communicator::all_gather(const void* own, int count, MPI_Datatype type, void* all) const {
  if (waits_inside_mpi()) {
    PMPI_Allgather(own, count, type, all, count, type, comm_);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Iallgather(own, count, type, all, count, type, comm_, &request);
  wait(request);
}

void Communicator::all_to_all(const void* out, int count, MPI_Datatype type, void* in) const {
  if (waits_inside_mpi()) {
    PMPI_Alltoall(out, count, type, in, count, type, comm_);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Ialltoall(out, count, type, in, count, type, comm_, &request);
  wait(request);
}

void Communicator::all_to_all_v(const void* out, Parts of_out, MPI_Datatype type, void* in, Parts of_in) const {
  if (waits_inside_mpi()) {
    PMPI_Alltoallv(out, of_out.counts, of_out.starts, type, in, of_in.counts, of_in.starts, type, comm_);
    return;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  PMPI_Ialltoallv(out, of_out.counts, of_out.starts, type, in, of_in.counts, of_in.starts, type, comm_, &request);
  wait(request);
}

}  // namespace spate::mpiio
