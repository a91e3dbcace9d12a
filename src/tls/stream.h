// SPDX-License-Identifier: Apache-2.0
// TLS for one connection, without OpenSSL in the interface. A program that may need TLS loads OpenSSL when it does
// (tls/late_context.h).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/kdf.h"
#include "base/result.h"

namespace spate::tls {

/// How a step of a handshake ended.
enum class Handshake : std::uint8_t {
  kDone,
  kWantsRead,   // call again when the socket is readable
  kWantsWrite,  // call again when it is writable
  kFailed,      // Stream::failure() says why
};

/// One end of a TLS 1.3 connection on a non-blocking socket, which the caller owns. Never blocks, raises no SIGPIPE.
/// Not thread-safe. Life cycle: made by a Context -> handshake() until it is done -> read(), write(), flush() -> end()
/// -> destroyed before the socket is closed.
class Stream {
 public:
  virtual ~Stream() = default;

  /// Goes on with the handshake. It is done when the other side has proved itself to this one; a client learns only by
  /// its first read() whether the server accepts its certificate.
  virtual Handshake handshake() = 0;

  /// Fills the pieces in order, as recvmsg(2) would. Returns the bytes read; 0: the other side has announced its end;
  /// -1: errno is EAGAIN (nothing is there; a readable socket announces more), or the connection broke. A short read
  /// means that nothing more is there, or that ended() is true.
  virtual ssize_t read(std::span<const iovec> pieces) = 0;
  /// Whether no more bytes will come.
  virtual bool ended() const = 0;
  /// Takes bytes from the pieces. Returns how many, or -1 with errno: EAGAIN while the socket is full. Bytes that it
  /// took are encrypted, so their memory may be used again, but they may still wait for flush(). The stream keeps at
  /// most kMostKept bytes.
  virtual ssize_t write(std::span<const iovec> pieces) = 0;
  /// Sends the bytes that wait. Returns 0 when all have left, else an errno: EAGAIN while the socket is full.
  virtual int flush() = 0;
  static constexpr std::size_t kMostKept = 128 * 1024;

  /// Whether the kernel encrypts. If so, the caller sends to the socket after the handshake as to any other one, also
  /// files, and does not call write(). It must send at most kKeyBytes.
  virtual bool kernel_sends() const = 0;
  /// How much one key may encrypt (AES-GCM, RFC 8446, sec. 5.5). write() changes the key in time.
  static constexpr std::uint64_t kKeyBytes = std::uint64_t{1} << 38U;

  /// A value that only the two ends of this connection know: a relay that ends TLS has two of them (RFC 9266).
  virtual Hash binding() const = 0;
  /// For people: "TLS 1.3 TLS_AES_128_GCM_SHA256, by certificate", after the handshake.
  virtual std::string description() const = 0;
  /// Why it failed, as a sentence about the other side. Empty: it did not, or the connection was only lost.
  virtual const std::string& failure() const = 0;
  /// Whether the handshake failed since what the other side sent is no TLS at all.
  virtual bool heard_no_tls() const = 0;
  /// Tells the other side that nothing follows, if that is possible at once.
  virtual void end() = 0;
};

/// A key that both sides have, and its name, which travels in clear.
struct SharedKey {
  Bytes identity;
  Key key{};
};

/// The keys of a process that uses no certificates. Thread-safe.
class Keys {
 public:
  virtual ~Keys() = default;
  /// The key for connections that this process makes.
  virtual Result<SharedKey> own() = 0;
  /// The key that a connecting process names; nothing: there is none. The identity is not to be trusted.
  virtual std::optional<Key> find(ByteView identity) = 0;
};

/// Files in PEM.
struct Files {
  std::string authority;    // the certificates that sign those of all servers and clients
  std::string certificate;  // of this process, with those between it and the authority
  std::string key;
  std::string revoked = {};  // revocation lists, one of each authority; empty: none is looked at
  bool empty() const { return certificate.empty(); }
};

/// With files, both sides show certificates. Without files, both sides have a key.
struct Settings {
  Files files = {};
  std::shared_ptr<Keys> keys = nullptr;
  std::string protocol = "spate/2";  // both sides must name the same one (ALPN)
  /// Told when files that have changed are used from now on, or cannot be used. May be empty.
  std::function<void(bool good, const std::string& what)> note = nullptr;
};

/// Facts about the certificate of this process, and about the revocation lists.
struct Facts {
  std::chrono::sys_seconds not_before;
  std::chrono::sys_seconds not_after;
  std::string names;                                       // the hosts that it is for: "a.example, 10.0.0.7"
  std::optional<std::chrono::sys_seconds> lists_end = {};  // when the first revocation list expires; none: no list
};

/// Makes streams. Files that change are read again for the next stream. Not thread-safe; outlives its streams.
class Context {
 public:
  virtual ~Context() = default;
  /// Reads the files. The error names the file and says what is wrong. Without effect after it has succeeded.
  virtual Result<void> open() = 0;
  /// Empty without a certificate. Call it after open().
  virtual std::optional<Facts> facts() const = 0;
  /// `host`: name or address that the server's certificate must be for.
  virtual Result<std::unique_ptr<Stream>> connect(int socket, const std::string& host) = 0;
  virtual Result<std::unique_ptr<Stream>> accept(int socket) = 0;
};

}  // namespace spate::tls
