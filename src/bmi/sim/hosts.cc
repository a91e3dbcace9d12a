// SPDX-License-Identifier: Apache-2.0
#include "bmi/sim/hosts.h"

#include <unistd.h>

#include <cerrno>

namespace spate::bmi::sim {
namespace {

Result<std::size_t> pread_file(std::uint32_t /*node*/, int fd, std::uint64_t offset, MutableByteView out) {
  ssize_t n = 0;
  do {
    n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
  } while (n < 0 && errno == EINTR);
  if (n < 0) return errno_error(errno, "pread");
  return static_cast<std::size_t>(n);
}

}  // namespace

Hosts::Hosts() : file_reader_(pread_file) {}

}  // namespace spate::bmi::sim
