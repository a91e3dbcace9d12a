// SPDX-License-Identifier: Apache-2.0
#include "fuse/kernel_init.h"

#include <fmt/core.h>
#include <linux/fuse.h>

#include <cstring>

namespace spate::fuse {
namespace {

// Since protocols 7.39 and 7.40, so this machine's header may lack them.
constexpr std::uint64_t kDirectIoAllowMmap = std::uint64_t{1} << 36U;
constexpr std::uint64_t kHasResend = std::uint64_t{1} << 39U;

struct AbilityFlag {
  Ability ability;
  std::uint64_t flag;  // a bit of flags (the lower half) and flags2 of FUSE_INIT
};
constexpr std::array kAbilityFlags{AbilityFlag{kMapsDirectIo, kDirectIoAllowMmap},
                                   AbilityFlag{kTellsOfSetgid, FUSE_SETXATTR_EXT},
                                   AbilityFlag{kClearsRights, FUSE_HANDLE_KILLPRIV_V2}};

/// The flags of the kernel's request; 0 if none has come. Kernels before FUSE_INIT_EXT send a shorter request.
std::uint64_t offered(const KernelInit& agreed) {
  fuse_in_header header{};
  fuse_init_in init{};
  if (agreed.size < sizeof(header) + sizeof(init) || agreed.size > agreed.request.size()) return 0;
  std::memcpy(&init, agreed.request.data() + sizeof(header), sizeof(init));
  const bool extended = (init.flags & FUSE_INIT_EXT) != 0;
  return init.flags | (extended ? std::uint64_t{init.flags2} << 32U : 0);
}

}  // namespace

KernelInit& kernel_init_of(client::HandoverState& handover) {
  return *reinterpret_cast<KernelInit*>(handover.frontend_memory());
}

Result<void> check_agreed(const KernelInit& init) {
  if (init.done == 0 || init.size > init.request.size())
    return Error::told(Errc::kCorrupt, "the previous process has not answered the kernel's FUSE_INIT");
  const std::uint32_t unknown = init.abilities & ~kAbilities;
  if (unknown == 0) return {};
  return Error::told(Errc::kVersionMismatch,
                     fmt::format("the previous process has agreed with the kernel on what this version does not know "
                                 "(abilities {:#x}): umount, and mount again",
                                 unknown));
}

bool offers_resend(const KernelInit& init) { return (offered(init) & kHasResend) != 0; }

void add_abilities(KernelInit& init, std::uint32_t wanted, std::span<const iovec> answer) {
  if (answer.size() != 2 || answer[1].iov_len != sizeof(fuse_init_out)) return;
  auto& out = *static_cast<fuse_init_out*>(answer[1].iov_base);
  for (const AbilityFlag& one : kAbilityFlags) {
    if ((wanted & one.ability) == 0 || (offered(init) & one.flag) == 0) continue;
    out.flags |= static_cast<std::uint32_t>(one.flag);
    out.flags2 |= static_cast<std::uint32_t>(one.flag >> 32U);
    if (out.flags2 != 0) out.flags |= FUSE_INIT_EXT;
    init.abilities |= one.ability;
  }
}

}  // namespace spate::fuse
