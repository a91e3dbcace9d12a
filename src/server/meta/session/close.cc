// SPDX-License-Identifier: Apache-2.0
// close: ends one open. After the last one for writing, size and mtime go into the inode.
#include "server/meta/core/core.h"
#include "server/meta/core/reply.h"
#include "server/meta/names/objects.h"
#include "server/meta/names/operations.h"
#include "server/meta/names/sizes.h"
#include "server/meta/store/access.h"
#include "server/meta/store/acl.h"

namespace spate::meta {
namespace {

/// Whether the close only reports an atime, which the right to read allows.
bool notes_a_read(const wire::CloseRequest& request) {
  return request.atime && !request.mtime && !request.mode && allows(request.rights, Rights::kRead);
}

bool sets_anything(const wire::CloseRequest& request) {
  return (request.atime || request.mtime || request.mode) && !notes_a_read(request);
}

Result<void> check_form(const wire::CloseRequest& request) {
  const auto rights = static_cast<unsigned>(request.rights);
  if (rights == 0 || rights > static_cast<unsigned>(Rights::kReadWrite)) {
    return Error::told(Errc::kInvalidArgument, "a close says with which rights the file was opened");
  }
  if (request.mode && *request.mode > 07777) return Error::told(Errc::kInvalidArgument, "mode bits beyond 07777");
  return {};
}

/// The summary of `opens` writers is reliable if there were no other writers.
bool is_usable(const InodeRecord& inode, const std::optional<wire::DataSummary>& data, std::uint32_t opens) {
  return data && inode.writers == opens && !inode.truncating && data->size <= kMaxFileBytes;
}

void end_writing(Operation& operation, InodeRecord& inode, const wire::CloseRequest& request, std::uint32_t opens) {
  const bool usable = is_usable(inode, request.data, opens) && believes_summary_of(operation, inode);
  if (!end_writes(inode, 1)) return;
  if (usable) {
    store_summary(inode, *request.data);
  } else {
    leave_unsettled(operation, inode);
  }
}

/// Times that were set explicitly win over those of earlier writes.
void set_attributes(Operation& operation, InodeRecord& inode, const wire::CloseRequest& request) {
  Attributes& a = inode.attributes;
  const Credential& who = operation.who();
  a.atime = request.atime.value_or(a.atime);
  if (request.mtime) {
    a.mtime = *request.mtime;
    if (!a.size_known && inode.write_opens == 0) inode.keep_mtime = true;
    if (!a.size_known && inode.write_opens > 0 && request.data) note_change_sum(inode, request.data->change_sum);
  }
  if (request.mode) {
    if (inode.write_opens == 0) {
      inode.written_by_users = false;  // nobody writes any more
    } else if (!a.size_known && request.data) {
      note_change_sum(inode, request.data->change_sum);
    }
    a.mode = *request.mode;
    apply_mode_to_acl(inode.acl, a.mode);
    if (!is_root(who) && !in_group(who, a.gid)) a.mode &= ~kSetGid;
  }
  touch(inode, operation.now());
}

/// Sets atime. It never moves back, nor ahead of the clock; ctime stays.
bool note_read(Operation& operation, InodeRecord& inode, const wire::CloseRequest& request) {
  if (!notes_a_read(request)) return false;
  const WallTime read_at = std::min(*request.atime, operation.now());
  if (read_at <= inode.attributes.atime) return false;
  inode.attributes.atime = read_at;
  return true;
}

/// `opens`: how many opens for writing `request.data` covers.
Outcome<wire::CloseReply> close(Operation& operation, const wire::CloseRequest& request, std::uint32_t opens) {
  SPATE_CO_TRY(std::ignore, check_form(request));
  const bool writes = allows(request.rights, Rights::kWrite);
  if (writes || notes_a_read(request)) {
    SPATE_CO_TRY(std::ignore, operation.lock({request.handle}));  // many clients may close one file at once
  }
  SPATE_CO_TRY(std::ignore, co_await operation.core().parts().opens->drop(operation, request.handle, request.rights));
  SPATE_CO_TRY(InodeRecord inode, co_await operation.inode(request.handle));
  operation.made_at_client().not_before(inode.attributes.ctime);
  if (writes) end_writing(operation, inode, request, opens);
  const bool may_set = !operation.call().peer->reads_only();
  if (sets_anything(request)) {
    if (!may_set) {
      operation.deferred().answer_with(Errc::kReadOnly);
    } else if (owns(operation.who(), inode.attributes)) {
      set_attributes(operation, inode, request);
    } else {
      // The open ends nevertheless, since a client closes only once.
      operation.deferred().answer_with(Errc::kNotPermitted);
    }
  }
  const bool read = may_set && note_read(operation, inode, request);
  if (writes || read || sets_anything(request) || inode.attributes.link_count == 0) {
    SPATE_CO_TRY(std::ignore, co_await put_or_remove(operation, inode));
  }
  co_return object_reply(inode);
}

}  // namespace

Outcome<wire::CloseReply> close(Operation& operation, const wire::CloseRequest& request) {
  auto reply = co_await close(operation, request, 1);
  co_return reply;
}

Outcome<wire::CloseReply> close_writers(Operation& operation, const wire::CloseWritersRequest& request) {
  if (request.opens == 0)
    co_return Error::told(Errc::kInvalidArgument, "the request closes nothing: its number of opens is 0");
  auto reply = co_await close(operation, request.close, request.opens);
  co_return reply;
}

}  // namespace spate::meta
