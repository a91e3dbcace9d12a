// SPDX-License-Identifier: Apache-2.0
// truncate: stores an intent, which intent recovery carries out at the io servers (docs/consistency.md, "Truncate").
#include "server/meta/core/core.h"
#include "server/meta/core/reply.h"
#include "server/meta/core/walk.h"
#include "server/meta/names/operations.h"
#include "server/meta/names/sizes.h"
#include "server/meta/store/access.h"

namespace spate::meta {
namespace {

job::Task<Result<bool>> has_open_for_writing(Operation& operation, Handle handle) {
  const wire::RequestHeader& header = operation.call().header;
  const StoreKey key = open_key(handle, header.client, header.session_epoch);
  SPATE_CO_TRY(const auto record, co_await operation.get<OpenRecord>(key));
  co_return record && record->writers > 0;
}

Result<void> check_object(const InodeRecord& inode) {
  if (inode.is_directory()) return Errc::kIsDirectory;
  return inode.is_regular() ? Result<void>() : Error::told(Errc::kInvalidArgument, "only files have a size to be set");
}

}  // namespace

Outcome<wire::TruncateReply> truncate(Operation& operation, const wire::TruncateRequest& request) {
  if (request.size > kMaxFileBytes) co_return Errc::kFileTooBig;
  SPATE_CO_TRY(InodeRecord inode, co_await walk(operation, request.where));
  SPATE_CO_TRY(std::ignore, check_object(inode));
  if (request.by_open_file) {
    SPATE_CO_TRY(const bool open, co_await has_open_for_writing(operation, inode.handle()));
    if (!open) co_return Error::told(Errc::kBadDescriptor, "this session does not have the file open for writing");
  } else if (!may(operation.who(), inode, kWantWrite)) {
    co_return Errc::kPermissionDenied;
  }
  SPATE_CO_TRY(std::ignore, after_truncations(operation, inode));
  begin_truncate(operation, inode, request.size, request.by_open_file && inode.writers == 1, Rights::kNone);
  operation.put(inode);
  wire::ObjectReply reply = object_reply(inode);
  // It has this size when the request is answered.
  if (reply.attributes.size_known) reply.attributes.size = request.size;
  co_return reply;
}

}  // namespace spate::meta
