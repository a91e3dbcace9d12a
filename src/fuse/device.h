// SPDX-License-Identifier: Apache-2.0
// Device: libfuse's session on a /dev/fuse that the supervisor holds, and that earlier processes of the mount have
// served.
#pragma once

#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "fuse/kernel_init.h"
#include "fuse/mount.h"

namespace spate::fuse {

/// What libfuse is told of the mount.
std::string mount_option_text(const Mount& mount);

struct SessionDeleter {
  void operator()(fuse_session* session) const { fuse_session_destroy(session); }
};
using SessionPtr = std::unique_ptr<fuse_session, SessionDeleter>;

/// Makes a session on `device` and initialises it: the first process answers the kernel's FUSE_INIT; in
/// later ones libfuse hears the same request again from the handover state, and the kernel is asked to repeat what has
/// not been answered. The kernel sends FUSE_INIT once for each mount.
Result<SessionPtr> take_device(Mount& mount, UniqueFd device);

/// The kernel can repeat requests (Linux 6.9); known after take_device().
bool can_resend(const Mount& mount);

/// The kernel has sent this request before, to an earlier process.
constexpr std::uint64_t kSentAgain = std::uint64_t{1} << 63U;

}  // namespace spate::fuse
