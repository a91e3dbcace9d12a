// SPDX-License-Identifier: Apache-2.0
// setattr: chmod, chown, utimensat, with the rules of POSIX and Linux.
#include <algorithm>

#include "server/meta/core/core.h"
#include "server/meta/core/reply.h"
#include "server/meta/names/objects.h"
#include "server/meta/names/operations.h"
#include "server/meta/names/sizes.h"
#include "server/meta/store/access.h"
#include "server/meta/store/acl.h"

namespace spate::meta {
namespace {

Result<void> check_form(const wire::SetattrRequest& request) {
  if (request.mode && *request.mode > 07777) return Error::told(Errc::kInvalidArgument, "mode bits beyond 07777");
  if ((request.atime && request.atime_now) || (request.mtime && request.mtime_now)) {
    return Error::told(Errc::kInvalidArgument, "a time that is given and 'now' at once");
  }
  return {};
}

Result<void> check_owner_change(const Credential& who, const Attributes& a, const wire::SetattrRequest& request) {
  if (!request.uid && !request.gid) return {};
  if (is_root(who)) return {};
  if (who.uid != a.uid) return Errc::kNotPermitted;
  if (request.uid && *request.uid != a.uid) return Errc::kNotPermitted;
  if (request.gid && *request.gid != a.gid && !in_group(who, *request.gid)) return Errc::kNotPermitted;
  return {};
}

bool sets_times(const wire::SetattrRequest& request) {
  return request.atime || request.mtime || request.atime_now || request.mtime_now || request.btime;
}

/// A caller with write permission may set both times to "now", as a write does. Only the owner may set other times.
Result<void> check_times(const Credential& who, const InodeRecord& object, const wire::SetattrRequest& request) {
  if (!sets_times(request) || owns(who, object.attributes)) return {};
  if (!request.atime_now || !request.mtime_now || request.btime) return Errc::kNotPermitted;
  return may(who, object, kWantWrite) ? Result<void>() : Errc::kPermissionDenied;
}

Result<void> check_mode_change(const Credential& who, const Attributes& a, const wire::SetattrRequest& request) {
  if (!request.mode) return {};
  if (a.type == FileType::kSymlink) return Error::told(Errc::kNotSupported, "a symbolic link has no mode of its own");
  return owns(who, a) ? Result<void>() : Errc::kNotPermitted;
}

/// A program loses set-uid and set-gid when its owner changes.
void set_owner(const Credential& who, Attributes& a, const wire::SetattrRequest& request) {
  if (!request.uid && !request.gid) return;
  a.uid = request.uid.value_or(a.uid);
  a.gid = request.gid.value_or(a.gid);
  if (a.type == FileType::kDirectory) return;
  a.mode &= ~kSetUid;
  const bool stranger = !is_root(who) && !in_group(who, a.gid);
  if ((a.mode & kGroupExecute) != 0 || stranger) a.mode &= ~kSetGid;
}

void set_mode(const Credential& who, InodeRecord& object, const wire::SetattrRequest& request) {
  if (!request.mode) return;
  Attributes& a = object.attributes;
  a.mode = *request.mode;
  apply_mode_to_acl(object.acl, a.mode);
  if (!is_root(who) && !in_group(who, a.gid)) a.mode &= ~kSetGid;
}

/// mtime, set-uid and set-gid of a file that is being written are valid only as long as its datafiles do not change.
job::Task<Result<void>> note_data(Operation& operation, InodeRecord& object, const wire::SetattrRequest& request) {
  Attributes& a = object.attributes;
  const bool sets_mtime = request.mtime || request.mtime_now;
  const bool lends = request.mode && lends_rights(*request.mode);
  if (!object.is_regular() || a.size_known || !(sets_mtime || lends)) co_return {};
  std::optional<wire::DataSummary> data = request.data;
  if (!data || !believes_summary_of(operation, object)) {
    const Layout layout = *object.layout;
    SPATE_CO_TRY(data, co_await operation.core().parts().io->stat(object.handle(), layout, operation.call().stop));
  }
  a.size = data->size;
  a.allocated_bytes = data->allocated_bytes;
  if (!sets_mtime && data->change_sum != a.change_sum) a.mtime = std::max(a.mtime, data->mtime);
  note_change_sum(object, data->change_sum);
  co_return {};
}

void set_times(Attributes& a, WallTime now, const wire::SetattrRequest& request) {
  if (request.atime_now) a.atime = now;
  if (request.mtime_now) a.mtime = now;
  a.atime = request.atime.value_or(a.atime);
  a.mtime = request.mtime.value_or(a.mtime);
  a.btime = request.btime.value_or(a.btime);
}

}  // namespace

Outcome<wire::SetattrReply> setattr(Operation& operation, const wire::SetattrRequest& request) {
  SPATE_CO_TRY(std::ignore, check_form(request));
  SPATE_CO_TRY(InodeRecord object, co_await walk(operation, request.where));
  operation.made_at_client().not_before(object.attributes.ctime);
  const Credential& who = operation.who();
  const Attributes before = object.attributes;
  SPATE_CO_TRY(std::ignore, check_owner_change(who, before, request));
  SPATE_CO_TRY(std::ignore, check_mode_change(who, before, request));
  SPATE_CO_TRY(std::ignore, check_times(who, object, request));
  SPATE_CO_TRY(std::ignore, co_await note_data(operation, object, request));
  set_owner(who, object.attributes, request);
  set_mode(who, object, request);
  set_times(object.attributes, operation.now(), request);
  if (sets_times(request) || request.mode || request.uid || request.gid) {
    touch(object, operation.now());
    operation.put(object);
  }
  co_return object_reply(object);
}

}  // namespace spate::meta
