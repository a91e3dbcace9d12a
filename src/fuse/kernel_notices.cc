// SPDX-License-Identifier: Apache-2.0
#include "fuse/kernel_notices.h"

#include <linux/fuse.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace spate::fuse {
namespace {

// Since protocol 7.44, so this machine's header may lack it. libfuse 3.14 does not know it either.
constexpr std::int32_t kNotifyNewEpoch = 8;

/// The kernel's fuse_notify_inval_inode_out after the header of every message.
struct DropAttributes {
  fuse_out_header header;
  fuse_notify_inval_inode_out what;
};

int send(int device, const void* message, std::size_t size) {
  for (;;) {
    if (::write(device, message, size) == static_cast<ssize_t>(size)) return 0;
    if (errno != EINTR) return errno;
  }
}

}  // namespace

int tell_drop_attributes(int device, Handle object) {
  DropAttributes message{};
  message.header.len = sizeof(message);
  message.header.error = FUSE_NOTIFY_INVAL_INODE;
  message.what.ino = object.value;
  message.what.off = -1;
  return send(device, &message, sizeof(message));
}

int tell_new_epoch(int device) {
  fuse_out_header message{};
  message.len = sizeof(message);
  message.error = kNotifyNewEpoch;
  return send(device, &message, sizeof(message));
}

}  // namespace spate::fuse
