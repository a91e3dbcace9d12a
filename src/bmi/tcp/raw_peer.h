// SPDX-License-Identifier: Apache-2.0
// RawPeer: the other side of a connection, byte by byte, for tests of hostile and broken peers.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/expect.h"
#include "base/unique_fd.h"
#include "bmi/tcp/endpoint.h"
#include "bmi/tcp/frame.h"
#include "bmi/tcp/hello.h"

namespace spate::bmi::tcp {

/// A connection with a module of the same process.
class RawPeer {
 public:
  /// `drive` lets the module work while this side waits for room in the socket.
  RawPeer(const std::string& url, std::function<void()> drive) : drive_(std::move(drive)) {
    const SocketAddress address = parse_url(url)->addresses.at(0);
    socket_.reset(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket_.get(), address.get(), address.size), 0);
    set_connection_options(socket_.get(), 0);
  }
  explicit RawPeer(UniqueFd socket) : socket_(std::move(socket)) {}

  int socket() const { return socket_.get(); }
  void close() { socket_.reset(); }

  /// Writes all bytes. False when the connection is gone.
  testing::AssertionResult write(ByteView bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno != EAGAIN) {
        return testing::AssertionFailure() << "the connection takes no more: " << std::strerror(errno);
      }
      if (n < 0 && drive_) drive_();
      if (n > 0) bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return testing::AssertionSuccess();
  }
  testing::AssertionResult write_frame(const FrameHeader& header, ByteView payload = {}) {
    const HeaderBytes bytes = encode(header);
    const testing::AssertionResult head = write(bytes);
    return head ? write(payload) : head;
  }
  void hello(const Hello& hello) { EXPECT_TRUE(write(encode(hello))); }

  /// Reads what is there without blocking. Empty also when the connection has ended (see ended()).
  Bytes read() {
    Bytes all;
    std::array<std::byte, 65536> part;
    for (;;) {
      const ssize_t n = ::recv(socket_.get(), part.data(), part.size(), MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno == ECONNRESET)) ended_ = true;
      if (n <= 0) return all;
      all.insert(all.end(), part.begin(), part.begin() + n);
    }
  }
  /// Whether the other side has closed the connection. Bytes that came before are lost.
  testing::AssertionResult ended() {
    (void)read();
    return (ended_ ? testing::AssertionSuccess() : testing::AssertionFailure())
           << "the other side has " << (ended_ ? "" : "not ") << "closed the connection";
  }

 private:
  UniqueFd socket_;
  std::function<void()> drive_;
  bool ended_ = false;
};

}  // namespace spate::bmi::tcp
