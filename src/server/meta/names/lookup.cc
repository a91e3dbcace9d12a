// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/core.h"
#include "server/meta/core/reply.h"
#include "server/meta/core/walk.h"
#include "server/meta/names/operations.h"
#include "server/meta/names/sizes.h"
#include "server/meta/store/access.h"

namespace spate::meta {

Outcome<wire::LookupReply> lookup(Operation& operation, const wire::LookupRequest& request) {
  SPATE_CO_TRY(InodeRecord object, co_await walk(operation, request.where, Reach::kOnTheWay));
  std::ignore = co_await show_as_it_is(operation, object);
  co_return object_reply(object);
}

Outcome<wire::LookupLeaseReply> lookup_lease(Operation& operation, const wire::LookupLeaseRequest& request) {
  Leases* const leases = operation.core().parts().leases;
  if (leases == nullptr) {
    wire::LookupLeaseReply reply;
    SPATE_CO_TRY(InodeRecord object, co_await walk(operation, request.where, Reach::kOnTheWay));
    std::ignore = co_await show_as_it_is(operation, object);
    reply.object = object_reply(object);
    co_return reply;
  }
  auto found = co_await leases->look_up(operation, request);
  co_return found;
}

Outcome<wire::AccessReply> access(Operation& operation, const wire::AccessRequest& request) {
  if (request.want > 7) co_return Error::told(Errc::kInvalidArgument, "only read, write and execute can be asked for");
  SPATE_CO_TRY(InodeRecord object, co_await walk(operation, request.where, Reach::kOnTheWay));
  if (!may(operation.who(), object, request.want)) co_return Errc::kPermissionDenied;
  if ((request.want & kWantWrite) != 0 && operation.call().peer->reads_only()) co_return Errc::kReadOnly;
  std::ignore = co_await show_as_it_is(operation, object);
  co_return object_reply(object);
}

Outcome<wire::GetattrReply> getattr(Operation& operation, const wire::GetattrRequest& request) {
  SPATE_CO_TRY(InodeRecord inode,
               co_await operation.inode(request.handle, trove::ReadMode::kChecked, Reach::kOnTheWay));
  std::ignore = co_await show_as_it_is(operation, inode);
  co_return object_reply(inode);
}

}  // namespace spate::meta
