// SPDX-License-Identifier: Apache-2.0
// Device: libfuse's session on a /dev/fuse that the supervisor holds. Earlier processes of the mount may have served
// the same /dev/fuse.
#pragma once

#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "fuse/kernel_init.h"
#include "fuse/mount.h"

namespace spate::fuse {

/// The options for libfuse.
std::string mount_option_text(const Mount& mount);

struct SessionDeleter {
  void operator()(fuse_session* session) const { fuse_session_destroy(session); }
};
using SessionPtr = std::unique_ptr<fuse_session, SessionDeleter>;

/// Makes a session on `device` and initialises it. The first process answers the kernel's FUSE_INIT, which the kernel
/// sends once for each mount. In later processes libfuse gets the same request again from the handover state, and the
/// kernel is asked to repeat unanswered requests.
Result<SessionPtr> take_device(Mount& mount, UniqueFd device);

/// As fuse_reply_open and fuse_reply_create. They also allow several direct writes of an open file at once (Linux 6.9),
/// for which libfuse 3.14 has no parameter.
int reply_open(fuse_req_t request, const fuse_file_info& info);
int reply_create(fuse_req_t request, const fuse_entry_param& entry, const fuse_file_info& info);

/// Whether the kernel can repeat requests (Linux 6.9). Known after take_device().
bool can_resend(const Mount& mount);

/// Set in the number of a request that the kernel sent before, to an earlier process.
constexpr std::uint64_t kSentAgain = std::uint64_t{1} << 63U;

}  // namespace spate::fuse
