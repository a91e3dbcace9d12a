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
  MPI_Offset offset = 0;  // kExplicit: in etypes
  void* buffer = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type = MPI_BYTE;
};

/// Life cycle: prepare() -> move_alone() or move_together() -> finish(). Once it has failed the others do nothing, but
/// move_together() takes part, so that no rank waits for this one.
class DataCall {
 public:
  DataCall(File& file, const Call& call) : file_(file), call_(call) {}
  DataCall(const DataCall&) = delete;
  DataCall& operator=(const DataCall&) = delete;

  /// All steps of a call that blocks. `failure`: what is wrong already.
  void run(Failure failure = {});

  /// Checks the arguments, moves the pointer that the call goes by, converts what is written. Collective with kOrdered.
  void prepare(Failure failure = {});
  /// This rank's access. Calls no function of MPI: any thread may run it.
  void move_alone();
  /// That of all ranks. Collective.
  void move_together();
  /// Converts what was read.
  void finish();

  const Failure& failure() const { return failure_; }
  /// What a status says.
  long bytes() const { return bytes_; }

 private:
  Failure check();
  Failure place(std::uint64_t etypes, std::uint64_t* first);
  Failure place_in_order(std::uint64_t etypes, std::uint64_t* first);

  File& file_;
  const Call call_;
  Memory memory_;
  std::optional<Converted> converted_;
  std::uint64_t first_ = 0;  // byte of the view's stream
  Failure failure_;
  long bytes_ = 0;
};

void set_status(MPI_Status* status, long bytes);

/// Begins a call and returns before it has ended. Other ranks are not waited for: a collective one may be called where
/// no other rank is in the same call. Wrong arguments fail at once, and *request is MPI_REQUEST_NULL.
int start_request(File& file, const Call& call, MPI_Request* request);

}  // namespace spate::mpiio
