// SPDX-License-Identifier: Apache-2.0
// The error codes of Spate and the Error value. Messages carry the codes: see docs/wire.md, "Error codes".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace spate {

/// The reason for a failure. Values are part of the wire format: never renumber, only append before a group's end. A
/// code that this build does not know is read as kUnknown.
enum class Errc : std::uint16_t {
  kOk = 0,
  kUnknown = 1,
  kCancelled = 2,
  kTimeout = 3,
  kBusy = 4,
  kTryAgain = 5,
  kNoMemory = 6,
  kInvalidArgument = 7,
  kNotSupported = 8,
  kOutOfRange = 9,        // a value or result does not fit (ERANGE)
  kArgumentTooLong = 10,  // E2BIG
  kDeadlock = 11,         // EDEADLK: two owners would wait for each other's locks for ever
  kNoLocks = 12,          // ENOLCK: too many locks, or too many waiters

  // Name space.
  kNotFound = 20,
  kExists = 21,
  kNotDirectory = 22,
  kIsDirectory = 23,
  kNotEmpty = 24,
  kNameTooLong = 25,
  kTooManyLinks = 26,
  kSymlinkLoop = 27,
  kNoAttribute = 28,
  kStaleHandle = 29,
  kBadDescriptor = 30,
  kCrossDevice = 31,
  kNoSuchDevice = 32,  // ENXIO: nobody is behind a fifo or device; no data beyond this offset

  // Rights.
  kPermissionDenied = 40,  // EACCES
  kNotPermitted = 41,      // EPERM
  kReadOnly = 42,

  // Space.
  kNoSpace = 50,
  kQuotaExceeded = 51,
  kFileTooBig = 52,

  // Storage.
  kIoError = 60,
  kCorrupt = 61,
  kLostWrite = 62,  // an unsynced write may be gone: the server restarted before it was synced
  kConflict = 63,   // a transaction read what another one changed
  kFormatTooNew = 64,
  kWrongFileSystem = 65,

  // Network.
  kUnreachable = 80,
  kConnectionLost = 81,
  kMessageTooBig = 82,
  kProtocol = 83,
  kVersionMismatch = 84,
  kBadAddress = 85,
  kNoSuchModule = 86,

  // Sessions and capabilities.
  kUnauthenticated = 100,  // no (valid) hello on this connection yet
  kSessionUnknown = 101,
  kSessionFenced = 102,
  kCapabilityInvalid = 103,
  kCapabilityExpired = 104,
  kStaleLayout = 105,
  kStaleMap = 106,
  kForgottenRequest = 107,  // the answer of a resent request is no longer known; the server did not run it again
  kLocksForgotten = 108,    // the meta server restarted: the session's locks are to be reclaimed before anything else
  kLostLock = 109,    // a lock is gone with its session, or was not reclaimed in time; others may have had it since
  kNotPrimary = 110,  // another member of the group leads; whether the request had an effect is left open
};

/// Short stable name ("not_found"), for logs and JSON. Static storage.
std::string_view name(Errc code);

/// One sentence for a person ("no such file or directory"). Static storage.
std::string_view describe(Errc code);

/// The code for a number read from the wire; kUnknown when this build does not know it.
Errc errc_from_wire(std::uint16_t value);

/// The code for a value of errno. Positive values only; an unmapped one becomes kIoError.
Errc errc_from_errno(int error_number);

/// A code with an optional context ("read keyval, handle 17"). Building one without context allocates nothing. A
/// moved-from Error keeps its code.
///
/// Every Result contains an Error, and most results are no errors. The context therefore lies on the heap: an Error
/// takes two words to move, and files that pass results on need not compile std::string's code.
class [[nodiscard]] Error {
 public:
  Error(Errc code) : code_(code) {}  // NOLINT(google-explicit-constructor): `return Errc::kNotFound;` is the idiom
  Error(Errc code, std::string&& context);
  Error(Errc code, std::string_view context);
  Error(Errc code, const char* context);
  /// An error whose context tells everything, also what to do about it: message() adds nothing to the context.
  static Error told(Errc code, std::string sentence) {
    Error error(code, std::move(sentence));
    error.is_told_ = true;
    return error;
  }
  Error(Error&& other) noexcept
      : code_(other.code_), is_told_(other.is_told_), context_(std::exchange(other.context_, nullptr)) {}
  Error(const Error& other) : code_(other.code_), is_told_(other.is_told_) {
    if (other.context_ != nullptr) [[unlikely]]
      copy_context(other);
  }
  Error& operator=(Error&& other) noexcept {
    Error taken(std::move(other));
    code_ = taken.code_;
    is_told_ = taken.is_told_;
    std::swap(context_, taken.context_);
    return *this;
  }
  Error& operator=(const Error& other) {
    Error copy(other);
    return *this = std::move(copy);
  }
  ~Error() {
    if (context_ != nullptr) [[unlikely]]
      drop_context();
  }

  Errc code() const { return code_; }
  const std::string& context() const;

  /// "context: description", or the description alone; for an error made by told(), the context alone.
  std::string message() const;

  /// Puts `outer` before the present context. Called once, by the floor that knows the object.
  Error&& within(std::string_view outer) &&;

 private:
  void copy_context(const Error& other);
  void drop_context();

  Errc code_;
  bool is_told_ = false;
  std::string* context_ = nullptr;  // owned
};

/// The error of a failed system call: code from errno, context "what (strerror)", or "what" where the code says the
/// same.
Error errno_error(int error_number, std::string_view what);

}  // namespace spate
