// SPDX-License-Identifier: Apache-2.0
// What a mount and the kernel have agreed on in FUSE_INIT, the first request, for all processes of the mount.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "client/session/handover_state.h"

namespace spate::fuse {

/// Abilities of the kernel that libfuse 3.14 does not know, so that they are agreed on past it. Stored in the handover
/// state: a number is never used for something else.
enum Ability : std::uint32_t {
  kMapsDirectIo = 1,   // mmap of files that the kernel keeps no pages of (Linux 6.6)
  kTellsOfSetgid = 2,  // a setxattr says whether an access control list clears setgid (Linux 5.13)
};

/// What the processes of one mount tell each other in HandoverState::frontend_memory().
struct KernelInit {
  std::uint32_t size = 0;       // of the kernel's first request; 0: there was none yet
  std::uint32_t want = 0;       // what was agreed on: libfuse's FUSE_CAP bits
  std::uint32_t done = 0;       // it has been answered
  std::uint32_t abilities = 0;  // what was agreed on past libfuse: Ability bits
  std::array<std::byte, 1024> request{};

  bool has(Ability ability) const { return (abilities & ability) != 0; }
};
static_assert(sizeof(KernelInit) <= client::HandoverState::kFrontendBytes);

/// The handover state's own.
KernelInit& kernel_init_of(client::HandoverState& handover);

/// Whether the kernel offers to repeat requests that were read and not answered (Linux 6.9).
bool offers_resend(const KernelInit& init);

/// `answer` is libfuse's to the kernel's first request, as writev(2) takes it: adds those of `wanted` (Ability bits)
/// that the kernel offers, and notes them in `init`. No other message is touched.
void add_abilities(KernelInit& init, std::uint32_t wanted, std::span<const iovec> answer);

}  // namespace spate::fuse
