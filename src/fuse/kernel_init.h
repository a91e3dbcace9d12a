// SPDX-License-Identifier: Apache-2.0
// The agreement of a mount and the kernel in FUSE_INIT, the first request. It holds for all processes of the mount.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "client/session/handover_state.h"

namespace spate::fuse {

/// Abilities of the kernel that libfuse 3.14 does not know. The mount agrees on them without libfuse. They are stored
/// in the handover state, so a number is never reused.
enum Ability : std::uint32_t {
  kMapsDirectIo = 1,   // mmap of files of which the kernel keeps no pages (Linux 6.6)
  kTellsOfSetgid = 2,  // a setxattr says whether an access control list clears setgid (Linux 5.13)
  kClearsRights = 4,   // the mount clears set-uid and set-gid at writes, so the kernel need not look first (Linux 5.12)
};

/// What the processes of one mount pass on in HandoverState::frontend_memory().
struct KernelInit {
  std::uint32_t size = 0;       // length of the kernel's first request; 0: none has come yet
  std::uint32_t want = 0;       // the agreed FUSE_CAP bits of libfuse
  std::uint32_t done = 0;       // the request has been answered
  std::uint32_t abilities = 0;  // the agreed Ability bits
  std::array<std::byte, 1024> request{};

  bool has(Ability ability) const { return (abilities & ability) != 0; }
};
static_assert(sizeof(KernelInit) <= client::HandoverState::kFrontendBytes);

/// The KernelInit in the handover state.
KernelInit& kernel_init_of(client::HandoverState& handover);

/// The abilities of this version. All processes of a mount agree on them with the kernel.
constexpr std::uint32_t kAbilities = kMapsDirectIo | kTellsOfSetgid | kClearsRights;

/// Whether a later process can continue with what an earlier one has agreed on. kCorrupt: nothing was agreed on, or the
/// record is damaged. kVersionMismatch: the mount has promised the kernel an ability that this process does not know.
Result<void> check_agreed(const KernelInit& init);

/// Whether the kernel offers to repeat requests that were read and not answered (Linux 6.9).
bool offers_resend(const KernelInit& init);

/// `answer` is libfuse's answer to the kernel's first request, as for writev(2). Adds those bits of `wanted` (Ability)
/// that the kernel offers, and records them in `init`. Other messages are not changed.
void add_abilities(KernelInit& init, std::uint32_t wanted, std::span<const iovec> answer);

}  // namespace spate::fuse
