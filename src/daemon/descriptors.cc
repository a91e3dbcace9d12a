// SPDX-License-Identifier: Apache-2.0
#include "daemon/descriptors.h"

#include <string>

#include "base/open_files.h"

namespace spate::daemon {
namespace {

/// The keyval store takes up to 256, datafiles as many, and there must be room for clients.
constexpr rlim_t kFewest = 512;

}  // namespace

Result<void> raise_descriptor_limit() {
  SPATE_TRY(const rlim_t limit, raise_open_files_limit());
  if (limit >= kFewest) return {};
  return Error::told(Errc::kNotSupported, "this process may open " + std::to_string(limit) + " files, a server needs " +
                                              std::to_string(kFewest) +
                                              ": raise `ulimit -n`, or LimitNOFILE= of its systemd unit");
}

}  // namespace spate::daemon
