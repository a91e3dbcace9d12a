// SPDX-License-Identifier: Apache-2.0
// open: opens an existing file.
#include "server/meta/core/reply.h"
#include "server/meta/core/walk.h"
#include "server/meta/names/operations.h"
#include "server/meta/names/sizes.h"
#include "server/meta/session/opens.h"
#include "server/meta/store/access.h"

namespace spate::meta {
namespace {

/// A renewal gives the rights of an open that is there.
constexpr std::uint8_t kRenewFlags = wire::kOpenRead | wire::kOpenWrite | wire::kOpenByUser;

Result<void> check_openable(const Credential& who, const InodeRecord& inode, std::uint8_t flags) {
  if (inode.is_directory()) return Errc::kIsDirectory;
  if (inode.is_symlink()) return Errc::kSymlinkLoop;
  if (!inode.is_regular())
    return Error::told(Errc::kNotSupported, "fifos, sockets and devices are opened by the client's kernel");
  unsigned want = 0;
  if ((flags & wire::kOpenRead) != 0) want |= kWantRead;
  if ((flags & (wire::kOpenWrite | wire::kOpenTruncate)) != 0) want |= kWantWrite;
  if ((flags & wire::kOpenExecute) != 0) want |= kWantExecute;
  return may(who, inode, want) ? Result<void>() : Errc::kPermissionDenied;
}

/// Sets atime, as the close of a counted open does.
Result<void> note_read(Operation& operation, InodeRecord& inode) {
  if (operation.call().peer->reads_only() || operation.now() <= inode.attributes.atime) return {};
  SPATE_TRY(std::ignore, operation.lock({inode.handle()}));  // many clients may read one file at once
  inode.attributes.atime = operation.now();
  operation.put(inode);
  return {};
}

/// Waits for the datafiles' answer if the last close has set a time: a new writer before that answer would lose the
/// time.
Result<void> after_settling(Operation& operation, const InodeRecord& inode, bool writes) {
  if (!writes || !inode.keep_mtime || inode.write_opens > 0) return {};
  const job::StopToken stop = operation.call().stop;
  return operation.deferred().run_again_after([intent_recovery = operation.core().parts().intent_recovery,
                                               handle = inode.handle(),
                                               stop] { return intent_recovery->settled(handle, stop); });
}

}  // namespace

job::Task<Result<wire::OpenReply>> OpenTable::open_existing(Operation& operation, InodeRecord inode,
                                                            std::uint8_t open_flags) {
  SPATE_CO_TRY(std::ignore, check_openable(operation.who(), inode, open_flags));
  SPATE_CO_TRY(std::ignore, after_truncations(operation, inode));
  const Rights rights = rights_of(open_flags);
  const bool writes = allows(rights, Rights::kWrite);
  SPATE_CO_TRY(std::ignore, after_settling(operation, inode, writes));
  wire::OpenReply reply;
  reply.truncated = (open_flags & wire::kOpenTruncate) != 0;
  if (reply.truncated) {
    SPATE_CO_TRY(std::ignore, operation.core().check_copies(operation.call()));
  }
  if (reply.truncated) begin_truncate(operation, inode, 0, false, rights);
  if (reply.truncated && (open_flags & wire::kOpenByUser) != 0) drop_setid_bits(inode.attributes);
  if ((open_flags & wire::kOpenNotesRead) != 0) {
    SPATE_CO_TRY(std::ignore, note_read(operation, inode));
  }
  if ((open_flags & wire::kOpenUncounted) != 0) {
    reply.capability = capability_for(operation, inode, rights);
  } else if (rights != Rights::kNone) {
    SPATE_CO_TRY(reply.capability, co_await add(operation, inode, open_flags, false));
  }
  if (writes || reply.truncated) operation.put(inode);
  const Leases* const leases = core_.parts().leases;
  if (!writes && inode.write_opens > 0 && leases != nullptr && leases->any_gathers())
    operation.open_for_reading(inode.handle());
  reply.object = object_reply(inode);
  co_return reply;
}

Outcome<wire::OpenReply> open(Operation& operation, const wire::OpenRequest& request) {
  if (!wire::fit_open(request.open_flags))
    co_return Error::told(Errc::kInvalidArgument, "open flags: an open that is not counted may only read");
  if (request.renew && (request.open_flags & ~kRenewFlags) != 0)
    co_return Error::told(Errc::kInvalidArgument, "open flags: a renewal asks for rights only");
  const bool to_write = (request.open_flags & (wire::kOpenWrite | wire::kOpenTruncate)) != 0;
  if (to_write && operation.call().peer->reads_only())
    co_return Error::told(Errc::kReadOnly, "the user's key is for reading only");
  SPATE_CO_TRY(InodeRecord inode, co_await walk(operation, request.where));
  Opens* const opens = operation.core().parts().opens;
  if (request.renew) {
    auto renewed = co_await opens->renew(operation, std::move(inode), request.open_flags);
    co_return renewed;
  }
  auto opened = co_await opens->open_existing(operation, std::move(inode), request.open_flags);
  co_return opened;
}

}  // namespace spate::meta
