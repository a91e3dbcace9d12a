// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/shared_pointer.h"

#include <fcntl.h>

#include "mpiio/back/access.h"

namespace spate::mpiio {
namespace {

Failure open_pointer(File& file) {
  long outcome = 0;
  if (own_file_system(file, &outcome) == nullptr) return failure_of(outcome, "connect");
  const std::lock_guard lock(file.mutex);
  if (file.pointer_file != nullptr) return {};
  // The first rank makes the file, and others open it later. A user who may write in the folder can put a link in its
  // place. The link would lead the others to another file of this user.
  const int how = O_CREAT | O_RDWR | O_NOFOLLOW;
  return failure_of(spate_open(file.fs, file.pointer_path.c_str(), how, 0600, &file.pointer_file),
                    "open " + file.pointer_path);
}

/// Reads the pointer. It is little-endian, like everything that Spate stores. If it was never moved, it is at the
/// start.
long load(File& file, std::uint64_t* position) {
  unsigned char bytes[8] = {};
  const long got = spate_pread(file.pointer_file, bytes, sizeof bytes, 0);
  *position = 0;
  for (std::size_t i = sizeof bytes; i-- > 0;) *position = *position << 8U | bytes[i];
  if (got == 0) *position = file.start;
  return got;
}

long store(File& file, std::uint64_t position) {
  unsigned char bytes[8];
  for (std::size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<unsigned char>(position >> (8 * i));
  return spate_pwrite(file.pointer_file, bytes, sizeof bytes, 0);
}

}  // namespace

Failure move_shared(File& file, std::uint64_t etypes, std::uint64_t* before) {
  if (Failure failure = open_pointer(file); failure.failed()) return failure;
  const std::string what = "shared pointer of " + file.path;
  const RangeLock lock(file.pointer_file, true, 0, 8);
  long outcome = lock.outcome();
  if (outcome >= 0) outcome = load(file, before);
  if (outcome >= 0 && etypes > 0) outcome = store(file, *before + etypes);
  return failure_of(outcome, what);
}

Failure set_shared(File& file, std::uint64_t position) {
  if (Failure failure = open_pointer(file); failure.failed()) return failure;
  const RangeLock lock(file.pointer_file, true, 0, 8);
  const long outcome = lock.outcome() < 0 ? lock.outcome() : store(file, position);
  return failure_of(outcome, "shared pointer of " + file.path);
}

}  // namespace spate::mpiio
