// SPDX-License-Identifier: Apache-2.0
#include "posix/errno.h"

#include <cerrno>

namespace spate::posix {
namespace {

int name_space_errno(Errc code) {
  switch (code) {
    case Errc::kNotFound: return ENOENT;
    case Errc::kExists: return EEXIST;
    case Errc::kNotDirectory: return ENOTDIR;
    case Errc::kIsDirectory: return EISDIR;
    case Errc::kNotEmpty: return ENOTEMPTY;
    case Errc::kNameTooLong: return ENAMETOOLONG;
    case Errc::kTooManyLinks: return EMLINK;
    case Errc::kSymlinkLoop: return ELOOP;
    case Errc::kNoAttribute: return ENODATA;
    case Errc::kStaleHandle: return ESTALE;
    case Errc::kBadDescriptor: return EBADF;
    case Errc::kCrossDevice: return EXDEV;
    case Errc::kPermissionDenied: return EACCES;
    case Errc::kNotPermitted: return EPERM;
    case Errc::kReadOnly: return EROFS;
    case Errc::kNoSpace: return ENOSPC;
    case Errc::kQuotaExceeded: return EDQUOT;
    case Errc::kFileTooBig: return EFBIG;
    case Errc::kNoSuchDevice: return ENXIO;
    default: return EIO;
  }
}

}  // namespace

int to_errno(Errc code) {
  switch (code) {
    case Errc::kOk: return 0;
    case Errc::kCancelled: return EINTR;
    case Errc::kTimeout: return ETIMEDOUT;
    case Errc::kBusy: return EBUSY;
    case Errc::kTryAgain: return EAGAIN;
    case Errc::kNoMemory: return ENOMEM;
    case Errc::kInvalidArgument: return EINVAL;
    case Errc::kNotSupported: return EOPNOTSUPP;
    case Errc::kOutOfRange: return ERANGE;
    case Errc::kArgumentTooLong: return E2BIG;
    case Errc::kDeadlock: return EDEADLK;
    case Errc::kNoLocks: return ENOLCK;
    case Errc::kUnreachable: return EHOSTUNREACH;
    case Errc::kConnectionLost: return ECONNRESET;
    case Errc::kUnauthenticated: return EACCES;
    default: return name_space_errno(code);
  }
}

}  // namespace spate::posix
