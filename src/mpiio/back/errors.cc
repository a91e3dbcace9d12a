// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/errors.h"

#include <spate.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "mpiio/back/mpi.h"

namespace spate::mpiio {

int class_of(long outcome) {
  if (outcome >= 0) return MPI_SUCCESS;
  switch (-outcome) {
    case ENOENT: return MPI_ERR_NO_SUCH_FILE;
    case EEXIST: return MPI_ERR_FILE_EXISTS;
    case EACCES:
    case EPERM: return MPI_ERR_ACCESS;
    case EROFS: return MPI_ERR_READ_ONLY;
    case ENOSPC: return MPI_ERR_NO_SPACE;
    case EDQUOT: return MPI_ERR_QUOTA;
    case ENAMETOOLONG:
    case EISDIR:
    case ENOTDIR:
    case ENXIO:
    case ELOOP: return MPI_ERR_BAD_FILE;
    case ETXTBSY:
    case EBUSY: return MPI_ERR_FILE_IN_USE;
    case EINVAL:
    case EFBIG: return MPI_ERR_ARG;
    case ENOMEM: return MPI_ERR_NO_MEM;
    case EOPNOTSUPP: return MPI_ERR_UNSUPPORTED_OPERATION;
    default: return MPI_ERR_IO;
  }
}

Failure failure_of(long outcome, const std::string& what) {
  if (outcome >= 0) return {};
  return {class_of(outcome), "spate: " + what + ": " + spate_last_error()};
}

namespace {

/// Returns a new error code with that text, or the class itself. MPICH 4.0 accepts texts for codes of its own classes,
/// but shows other texts for them.
int make_code(int error_class, const std::string& text) {
  static bool shown = true;
  int code = 0;
  int size = 0;
  char back[MPI_MAX_ERROR_STRING] = {};
  if (!shown || PMPI_Add_error_code(error_class, &code) != MPI_SUCCESS ||
      PMPI_Add_error_string(code, text.c_str()) != MPI_SUCCESS)
    return error_class;
  shown = PMPI_Error_string(code, back, &size) == MPI_SUCCESS && text == back;
  return shown ? code : error_class;
}

}  // namespace

int code_of(const Failure& failure) {
  constexpr std::size_t kMostTexts = 256;
  static std::mutex mutex;
  static auto& known = *new std::map<std::pair<int, std::string>, int>;
  if (failure.text.empty()) return failure.error_class;
  const std::lock_guard lock(mutex);
  const std::string text = failure.text.substr(0, MPI_MAX_ERROR_STRING - 1);
  const auto found = known.find({failure.error_class, text});
  if (found != known.end()) return found->second;
  if (known.size() >= kMostTexts) return failure.error_class;
  return known[{failure.error_class, text}] = make_code(failure.error_class, text);
}

int raise(MPI_File shadow, const Failure& failure) {
  const int code = code_of(failure);
  PMPI_File_call_errhandler(shadow, code);
  return code;
}

int raise_without_file(const Failure& failure) {
  // Open MPI refuses to call the handler of MPI_FILE_NULL. A new file handle inherits that handler.
  MPI_File shadow = make_shadow();
  if (shadow == MPI_FILE_NULL) return code_of(failure);
  const int code = raise(shadow, failure);
  free_shadow(&shadow);
  return code;
}

}  // namespace spate::mpiio
