// SPDX-License-Identifier: Apache-2.0
#include "server/meta/operations.h"
#include "server/meta/reply.h"

namespace spate::meta {

job::Task<Result<wire::GetattrReply>> getattr(Operation& operation, const wire::GetattrRequest& request) {
  SPATE_CO_TRY(const InodeRecord inode, co_await operation.inode(request.handle));
  co_return object_reply(inode);
}

}  // namespace spate::meta
