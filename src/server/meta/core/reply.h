// SPDX-License-Identifier: Apache-2.0
// Builds replies from records.
#pragma once

#include "server/meta/store/records.h"
#include "wire/meta_messages.h"

namespace spate::meta {

inline wire::ObjectReply object_reply(const InodeRecord& inode) {
  wire::ObjectReply reply;
  reply.attributes = inode.attributes;
  reply.layout = inode.layout;
  reply.target = inode.target;
  return reply;
}

}  // namespace spate::meta
