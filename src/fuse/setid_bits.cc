// SPDX-License-Identifier: Apache-2.0
#include "fuse/setid_bits.h"

#include "fuse/kernel_init.h"

namespace spate::fuse {

Result<void> clear_setid_bits(fuse_req_t request, fuse_ino_t inode) {
  if (this_mount().credential.uid != 0) return {};
  SPATE_TRY(const auto found, run(request, [&](client::Client& c) { return c.lookup(node(inode)); }));
  const std::uint32_t mode = found.attributes.mode;
  const bool by_group = (mode & S_ISGID) != 0 && (mode & S_IXGRP) != 0;
  if ((mode & S_ISUID) == 0 && !by_group) return {};
  wire::SetattrRequest change;
  change.where = node(inode);
  change.mode = mode & ~static_cast<std::uint32_t>(by_group ? S_ISUID | S_ISGID : S_ISUID);
  SPATE_TRY(std::ignore, run(request, [&](client::Client& c) { return c.setattr(change); }));
  return {};
}

Result<void> clear_setid_bits(fuse_req_t request, OpenFile& open, bool kills) {
  if (!kills || open.file->by_user()) return {};
  return clear_setid_bits(request, open.handle.value);
}

bool kills_rights() {
  const CurrentRequest& current = CurrentRequest::of_this_thread();
  return kernel_init_of(current.mount().handover).has(kClearsRights) && current.caller().uid != 0;
}

}  // namespace spate::fuse
