// SPDX-License-Identifier: Apache-2.0
// From errnos and sentences to MPI's error codes, and to the error handlers of files.
#pragma once

#include <string>

#include "mpiio/back/mpi.h"

namespace spate::mpiio {

/// An MPI error class, and a sentence for a person. A value.
struct Failure {
  int error_class = MPI_SUCCESS;
  std::string text;
  bool failed() const { return error_class != MPI_SUCCESS; }
};

/// The class for a negative errno of spate.h; 0 and more: MPI_SUCCESS.
int class_of(long outcome);
/// The same with what spate_last_error() says; `what` says what was being done.
Failure failure_of(long outcome, const std::string& what);

/// A code of the failure's class, whose MPI_Error_string is its text where MPI can show it. At most 256 texts are kept;
/// later ones have the class's.
int code_of(const Failure& failure);

/// Calls the error handler of a file's handle, or of files without one (MPI_FILE_NULL). Returns the code.
int raise(MPI_File shadow, const Failure& failure);
int raise_without_file(const Failure& failure);

}  // namespace spate::mpiio
