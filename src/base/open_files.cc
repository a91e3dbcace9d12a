// SPDX-License-Identifier: Apache-2.0
#include "base/open_files.h"

#include <algorithm>
#include <cerrno>

namespace spate {

Result<rlim_t> raise_open_files_limit() {
  constexpr rlim_t kMost = rlim_t{1} << 20U;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_error(errno, "limit of open files");
  const rlim_t wanted = std::max(limit.rlim_cur, std::min(limit.rlim_max, kMost));
  const rlimit raised{wanted, limit.rlim_max};
  if (wanted > limit.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &raised) != 0) return limit.rlim_cur;
  return wanted;
}

}  // namespace spate
