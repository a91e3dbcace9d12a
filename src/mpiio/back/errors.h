// SPDX-License-Identifier: Apache-2.0
// Turns errnos and messages into MPI's error codes, and calls the error handlers of files.
#pragma once

#include <string>

#include "mpiio/back/mpi.h"

namespace spate::mpiio {

/// An MPI error class and a message for a person. A value.
struct Failure {
  int error_class = MPI_SUCCESS;
  std::string text;
  bool failed() const { return error_class != MPI_SUCCESS; }
};

/// The error class for a negative errno of spate.h; MPI_SUCCESS for other values.
int class_of(long outcome);
/// As class_of(), with the text of spate_last_error(). `what` names the action that failed.
Failure failure_of(long outcome, const std::string& what);

/// An error code of the failure's class. MPI_Error_string returns the failure's text if MPI can show it. At most 256
/// texts are kept; later codes have the text of their class.
int code_of(const Failure& failure);

/// Calls the error handler of a file's handle, or of MPI_FILE_NULL if there is none. Returns the error code.
int raise(MPI_File shadow, const Failure& failure);
int raise_without_file(const Failure& failure);

}  // namespace spate::mpiio
