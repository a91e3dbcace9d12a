// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace spate {
namespace {

struct ErrcRow {
  Errc code;
  std::string_view name;
  std::string_view sentence;
};

// One row a code; error_test.cc holds the rows against the enumeration.
constexpr ErrcRow kRows[] = {
    {Errc::kOk, "ok", "success"},
    {Errc::kUnknown, "unknown", "unknown error (from a newer peer?)"},
    {Errc::kCancelled, "cancelled", "operation cancelled"},
    {Errc::kTimeout, "timeout", "deadline passed"},
    {Errc::kBusy, "busy", "device or resource busy"},
    {Errc::kTryAgain, "try_again", "try again"},
    {Errc::kNoMemory, "no_memory", "out of memory"},
    {Errc::kInvalidArgument, "invalid_argument", "invalid argument"},
    {Errc::kNotSupported, "not_supported", "operation not supported"},
    {Errc::kOutOfRange, "out_of_range", "result does not fit"},
    {Errc::kArgumentTooLong, "argument_too_long", "argument too long"},
    {Errc::kDeadlock, "deadlock", "resource deadlock avoided"},
    {Errc::kNoLocks, "no_locks", "no locks available"},
    {Errc::kNotFound, "not_found", "no such file or directory"},
    {Errc::kExists, "exists", "file exists"},
    {Errc::kNotDirectory, "not_directory", "not a directory"},
    {Errc::kIsDirectory, "is_directory", "is a directory"},
    {Errc::kNotEmpty, "not_empty", "directory not empty"},
    {Errc::kNameTooLong, "name_too_long", "file name too long"},
    {Errc::kTooManyLinks, "too_many_links", "too many links"},
    {Errc::kSymlinkLoop, "symlink_loop", "too many levels of symbolic links"},
    {Errc::kNoAttribute, "no_attribute", "no such attribute"},
    {Errc::kStaleHandle, "stale_handle", "stale file handle: the object was removed"},
    {Errc::kBadDescriptor, "bad_descriptor", "bad file descriptor"},
    {Errc::kCrossDevice, "cross_device", "not on the same file system"},
    {Errc::kNoSuchDevice, "no_such_device", "no such device or address"},
    {Errc::kPermissionDenied, "permission_denied", "permission denied"},
    {Errc::kNotPermitted, "not_permitted", "operation not permitted"},
    {Errc::kReadOnly, "read_only", "read-only"},
    {Errc::kNoSpace, "no_space", "no space left on device"},
    {Errc::kQuotaExceeded, "quota_exceeded", "quota exceeded"},
    {Errc::kFileTooBig, "file_too_big", "file too large"},
    {Errc::kIoError, "io_error", "input/output error"},
    {Errc::kCorrupt, "corrupt", "data is corrupt"},
    {Errc::kLostWrite, "lost_write", "a write that was not synced may be lost: the server restarted"},
    {Errc::kConflict, "conflict", "transaction conflict"},
    {Errc::kFormatTooNew, "format_too_new", "written by a newer version of Spate"},
    {Errc::kWrongFileSystem, "wrong_file_system", "belongs to another file system or server"},
    {Errc::kUnreachable, "unreachable", "server cannot be reached"},
    {Errc::kConnectionLost, "connection_lost", "connection lost"},
    {Errc::kMessageTooBig, "message_too_big", "message too long"},
    {Errc::kProtocol, "protocol", "protocol error"},
    {Errc::kVersionMismatch, "version_mismatch", "protocol versions do not overlap"},
    {Errc::kBadAddress, "bad_address", "not a valid network address"},
    {Errc::kNoSuchModule, "no_such_module", "no network module for this address"},
    {Errc::kUnauthenticated, "unauthenticated", "not authenticated (wrong key?)"},
    {Errc::kSessionUnknown, "session_unknown", "session unknown or expired"},
    {Errc::kSessionFenced, "session_fenced", "session was fenced: it was silent for too long"},
    {Errc::kCapabilityInvalid, "capability_invalid", "capability is not valid"},
    {Errc::kCapabilityExpired, "capability_expired", "capability expired"},
    {Errc::kStaleLayout, "stale_layout", "layout has changed"},
    {Errc::kStaleMap, "stale_map", "cluster map has changed"},
    {Errc::kForgottenRequest, "forgotten_request", "the answer of a resent request is no longer known"},
    {Errc::kLocksForgotten, "locks_forgotten", "the server has restarted and its locks are to be reclaimed"},
    {Errc::kLostLock, "lost_lock", "a lock was lost: the session ran out, or the lock was not reclaimed in time"},
    {Errc::kNotPrimary, "not_primary", "another server of the group leads"},
};

const ErrcRow& row(Errc code) {
  for (const ErrcRow& r : kRows) {
    if (r.code == code) return r;
  }
  return kRows[1];
}

bool equal_but_for_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

std::string_view name(Errc code) { return row(code).name; }

std::string_view describe(Errc code) { return row(code).sentence; }

Errc errc_from_wire(std::uint16_t value) { return row(static_cast<Errc>(value)).code; }

Errc errc_from_errno(int error_number) {
  switch (error_number) {
    case 0: return Errc::kOk;
    case EPERM: return Errc::kNotPermitted;
    case EDEADLK: return Errc::kDeadlock;
    case ENOLCK: return Errc::kNoLocks;
    case ENOENT: return Errc::kNotFound;
    case EINTR:
    case EAGAIN: return Errc::kTryAgain;
    case EBADF: return Errc::kBadDescriptor;
    case ENOMEM: return Errc::kNoMemory;
    case EACCES: return Errc::kPermissionDenied;
    case EADDRINUSE:
    case EBUSY: return Errc::kBusy;
    case EEXIST: return Errc::kExists;
    case EXDEV: return Errc::kCrossDevice;
    case ENOTDIR: return Errc::kNotDirectory;
    case EISDIR: return Errc::kIsDirectory;
    case EINVAL: return Errc::kInvalidArgument;
    case EFBIG: return Errc::kFileTooBig;
    case ENOSPC: return Errc::kNoSpace;
    case EROFS: return Errc::kReadOnly;
    case EMLINK: return Errc::kTooManyLinks;
    case ERANGE: return Errc::kOutOfRange;
    case E2BIG: return Errc::kArgumentTooLong;
    case ENXIO: return Errc::kNoSuchDevice;
    case ENAMETOOLONG: return Errc::kNameTooLong;
    case ENOTEMPTY: return Errc::kNotEmpty;
    case ELOOP: return Errc::kSymlinkLoop;
    case ENODATA: return Errc::kNoAttribute;
    case EPROTO: return Errc::kProtocol;
    case EOPNOTSUPP:
    case ENOSYS: return Errc::kNotSupported;
    case EMSGSIZE: return Errc::kMessageTooBig;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
    case EADDRNOTAVAIL:
    case ECONNREFUSED: return Errc::kUnreachable;
    case EPIPE:
    case ECONNABORTED:
    case ECONNRESET:
    case ENOTCONN: return Errc::kConnectionLost;
    case ETIMEDOUT: return Errc::kTimeout;
    case ESTALE: return Errc::kStaleHandle;
    case EDQUOT: return Errc::kQuotaExceeded;
    case ECANCELED: return Errc::kCancelled;
    default: return Errc::kIoError;
  }
}

Error::Error(Errc code, std::string&& context) : code_(code), context_(new std::string(std::move(context))) {}
Error::Error(Errc code, std::string_view context) : code_(code), context_(new std::string(context)) {}
Error::Error(Errc code, const char* context) : code_(code), context_(new std::string(context)) {}

void Error::copy_context(const Error& other) { context_ = new std::string(*other.context_); }

void Error::drop_context() { delete context_; }

const std::string& Error::context() const {
  static const std::string none;
  return context_ == nullptr ? none : *context_;
}

std::string Error::message() const {
  if (context().empty()) return std::string(describe(code_));
  if (is_told_) return context();
  return context() + ": " + std::string(describe(code_));
}

Error&& Error::within(std::string_view outer) && {
  std::string whole(outer);
  if (!context().empty()) whole.append(": ").append(context());
  drop_context();
  context_ = new std::string(std::move(whole));
  return std::move(*this);
}

Error errno_error(int error_number, std::string_view what) {
  const Errc code = errc_from_errno(error_number);
  const std::string reason = std::generic_category().message(error_number);
  // The context says the same as the code's own sentence: report it once.
  if (equal_but_for_case(reason, describe(code))) return Error(code, std::string(what));
  return Error(code, std::string(what) + " (" + reason + ")");
}

}  // namespace spate
