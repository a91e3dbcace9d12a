// SPDX-License-Identifier: Apache-2.0
// Communicator: the collective calls that the ranks of one access make.
#pragma once

#include <cstdint>
#include <span>

#include "mpiio/back/mpi.h"

namespace spate::mpiio {

/// Collective calls over one communicator. A value; the communicator lives longer. On failure MPI calls the error
/// handler of the communicator, which ends the program unless it has another one.
class Communicator {
 public:
  enum class Thread {
    kProgram,  // a thread of the program, which waits for the call and does nothing else
    kLibrary,  // a thread of this library: it sleeps while it waits, because the program computes meanwhile
  };
  Communicator(MPI_Comm comm, Thread thread) : comm_(comm), thread_(thread) {}

  /// Returns who waits for the messages.
  Thread thread() const { return thread_; }
  /// Replaces each value by the result of `op` over all ranks.
  void all_reduce(std::span<std::int64_t> values, MPI_Op op) const;
  /// `all` gets the `count` values of each rank, in the order of the ranks.
  void all_gather(const void* own, int count, MPI_Datatype type, void* all) const;
  /// Sends `count` values to each rank, and gets as many from it.
  void all_to_all(const void* out, int count, MPI_Datatype type, void* in) const;

  /// Memory of all_to_all_v() in elements of a type: for each rank a number, and where they begin.
  struct Parts {
    const int* counts;
    const int* starts;
  };
  void all_to_all_v(const void* out, Parts of_out, MPI_Datatype type, void* in, Parts of_in) const;

 private:
  bool waits_inside_mpi() const;
  void wait(MPI_Request request) const;

  MPI_Comm comm_;
  Thread thread_;
};

}  // namespace spate::mpiio
