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

/// What wakes a transport that could not go on.
enum class Wants : std::uint8_t { kNothing, kReadable, kWritable };

/// Never blocks: kTryAgain when nothing can be done now, and wants() says for what to wait. One connection.
class Transport {
 public:
  virtual ~Transport() = default;
  /// At least one byte into the pieces, in order; 0 when the peer has ended.
  virtual Result<std::size_t> read(std::span<const iovec> pieces) = 0;
  /// At least one byte of the pieces. `more`: something follows at once, so small packets may wait for it.
  virtual Result<std::size_t> write(std::span<const iovec> pieces, bool more) = 0;
  /// A part of an open file; only if can_send_file(). 0: the file has ended before `offset`.
  virtual Result<std::size_t> send_file(int fd, std::uint64_t offset, std::size_t size) = 0;
  virtual bool can_send_file() const = 0;
  /// At most `size` bytes into a pipe; only if can_send_file(). kTryAgain also when the pipe is full. 0 as in read().
  virtual Result<std::size_t> read_to_pipe(int /*pipe*/, std::size_t /*size*/) { return Errc::kNotSupported; }
  /// There is something to be read now.
  virtual bool has_input() const { return false; }
  /// There is input that no readable descriptor will announce.
  virtual bool has_pending() const { return false; }
  /// Beside what the caller waits for by itself.
  virtual Wants read_wants() const { return Wants::kReadable; }
  virtual Wants write_wants() const { return Wants::kWritable; }
  /// Who the peer has proven to be, once something was read: "cert:NAME", "psk:NAME" (access.h). In the clear: nobody.
  virtual std::vector<std::string> identities() const { return {}; }
  /// Tells the peer in its own way that there will be no more.
  virtual void end() {}
};

/// A connected stream socket, set to non-blocking; owned by somebody else.
std::unique_ptr<Transport> plain_transport(int socket);

}  // namespace spate::nbd
