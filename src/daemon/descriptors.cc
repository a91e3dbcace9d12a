// SPDX-License-Identifier: Apache-2.0
#include "daemon/descriptors.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <string>

namespace spate::daemon {
namespace {

/// The keyval store takes up to 256, datafiles as many, and there must be room for clients.
constexpr rlim_t kFewest = 512;
/// The limit is raised to at most this. It may be infinite, and some tables are sized by it.
constexpr rlim_t kMost = rlim_t{1} << 20U;

}  // namespace

Result<void> raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_error(errno, "limit of open files");
  const rlim_t wanted = std::max(limit.rlim_cur, std::min(limit.rlim_max, kMost));
  if (wanted > limit.rlim_cur) {
    const rlimit raised{wanted, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur >= kFewest) return {};
  return Error::told(Errc::kNotSupported, "this process may open " + std::to_string(limit.rlim_cur) +
                                              " files, a server needs " + std::to_string(kFewest) +
                                              ": raise `ulimit -n`, or LimitNOFILE= of its systemd unit");
}

}  // namespace spate::daemon
