// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/reply.h"

namespace spate::meta {

wire::ObjectReply object_reply(const InodeRecord& inode) {
  wire::ObjectReply reply;
  reply.attributes = inode.attributes;
  reply.layout = inode.layout;
  reply.target = inode.target;
  return reply;
}

}  // namespace spate::meta
