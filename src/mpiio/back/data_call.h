// SPDX-License-Identifier: Apache-2.0
// One call that moves data, from its arguments to its end.
#pragma once

#include <optional>

#include "mpiio/back/collective.h"
#include "mpiio/back/representation.h"

namespace spate::mpiio {

enum class Pointer { kExplicit, kIndividual, kShared, kOrdered };

struct Call {
  bool write = false;
  Pointer pointer = Pointer::kExplicit;
  bool together = false;
  MPI_Offset offset = 0;  // kExplicit: where the access begins, in etypes
  void* buffer = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type = MPI_BYTE;
};

/// Life cycle: prepare() -> move_alone() or move_together() -> finish(). After a failure the next steps do nothing,
/// except that move_together() still takes part, so that no rank waits for this one.
class DataCall {
 public:
  DataCall(File& file, const Call& call) : file_(file), call_(call) {}
  DataCall(const DataCall&) = delete;
  DataCall& operator=(const DataCall&) = delete;

  /// Runs all steps of a blocking call. `failure`: an error that was found before it.
  void run(Failure failure = {});

  /// Checks the arguments, moves the file pointer that the call uses, and converts data that will be written.
  /// Collective with kOrdered.
  void prepare(Failure failure = {});
  /// Makes this rank's access. It calls no function of MPI, so any thread may run it.
  void move_alone();
  /// Makes the access together with all ranks. Collective over `communicator`.
  void move_together(const Communicator& communicator);
  /// Converts data that was read.
  void finish();

  const Failure& failure() const { return failure_; }
  /// The number of bytes for the status.
  long bytes() const { return bytes_; }

 private:
  Failure check();
  Failure place(std::uint64_t etypes, std::uint64_t* first);
  Failure place_in_order(std::uint64_t etypes, std::uint64_t* first);

  File& file_;
  const Call call_;
  Memory memory_;
  std::optional<Converted> converted_;
  std::uint64_t first_ = 0;  // first byte of the access in the view's stream
  Failure failure_;
  long bytes_ = 0;
};

void set_status(MPI_Status* status, long bytes);

/// Begins a call and returns before the access has ended. It does not wait for other ranks, so a collective call may
/// begin while no other rank is in it. If arguments are wrong, it fails at once, and *request is MPI_REQUEST_NULL.
int start_request(File& file, const Call& call, MPI_Request* request);

}  // namespace spate::mpiio
