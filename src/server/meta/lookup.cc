// SPDX-License-Identifier: Apache-2.0
#include "server/meta/operations.h"
#include "server/meta/reply.h"
#include "server/meta/walk.h"

namespace spate::meta {

Outcome<wire::LookupReply> lookup(Operation& operation, const wire::LookupRequest& request) {
  SPATE_CO_TRY(const InodeRecord object, co_await walk(operation, request.where));
  co_return object_reply(object);
}

Outcome<wire::GetattrReply> getattr(Operation& operation, const wire::GetattrRequest& request) {
  SPATE_CO_TRY(const InodeRecord inode, co_await operation.inode(request.handle));
  co_return object_reply(inode);
}

}  // namespace spate::meta
