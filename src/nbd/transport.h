// SPDX-License-Identifier: Apache-2.0
// Transport: the bytes of one connection, in the clear (here) or by TLS (tls.h).
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace spate::nbd {

/// The event that a transport waits for.
enum class Wants : std::uint8_t { kNothing, kReadable, kWritable };

/// Never blocks: kTryAgain means that nothing can be done now, and wants() says what to wait for. One connection.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Reads at least one byte into the pieces, in order; 0: the peer has ended.
  virtual Result<std::size_t> read(std::span<const iovec> pieces) = 0;
  /// Writes at least one byte of the pieces. `more`: more data follows at once, so small packets may wait for it.
  virtual Result<std::size_t> write(std::span<const iovec> pieces, bool more) = 0;
  /// Sends a part of an open file; only if can_send_file(). 0: the file ends before `offset`.
  virtual Result<std::size_t> send_file(int fd, std::uint64_t offset, std::size_t size) = 0;
  virtual bool can_send_file() const = 0;
  /// Moves at most `size` bytes into a pipe; only if can_send_file(). kTryAgain also if the pipe is full. 0 as in
  /// read().
  virtual Result<std::size_t> read_to_pipe(int /*pipe*/, std::size_t /*size*/) { return Errc::kNotSupported; }
  /// Whether there is something to read now.
  virtual bool has_input() const { return false; }
  /// Whether there is input that a readable descriptor will not announce.
  virtual bool has_pending() const { return false; }
  /// What a blocked read waits for; the caller always waits for input anyway.
  virtual Wants read_wants() const { return Wants::kReadable; }
  virtual Wants write_wants() const { return Wants::kWritable; }
  /// The identities that the peer has proved, after the first read: "cert:NAME", "psk:NAME" (access.h). Without TLS:
  /// none.
  virtual std::vector<std::string> identities() const { return {}; }
  /// Tells the peer that nothing more follows, if the protocol has a message for that.
  virtual void end() {}
};

/// For a connected stream socket, which it sets to non-blocking. The caller owns the socket.
std::unique_ptr<Transport> plain_transport(int socket);

}  // namespace spate::nbd
