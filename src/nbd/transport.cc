// SPDX-License-Identifier: Apache-2.0
#include "nbd/transport.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include <cerrno>

namespace spate::nbd {
namespace {

Result<std::size_t> moved(ssize_t n) {
  if (n >= 0) return static_cast<std::size_t>(n);
  // EINTR: epoll is level-triggered, so the next turn continues.
  if (errno == EAGAIN || errno == EINTR) return Errc::kTryAgain;
  return Errc::kConnectionLost;
}

class PlainTransport final : public Transport {
 public:
  explicit PlainTransport(int socket) : socket_(socket) {}

  Result<std::size_t> read(std::span<const iovec> pieces) override {
    if (pieces.size() == 1) return moved(::recv(socket_, pieces[0].iov_base, pieces[0].iov_len, 0));
    return moved(::readv(socket_, pieces.data(), static_cast<int>(pieces.size())));
  }
  Result<std::size_t> write(std::span<const iovec> pieces, bool more) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = pieces.size();
    return moved(::sendmsg(socket_, &message, MSG_NOSIGNAL | (more ? MSG_MORE : 0)));
  }
  Result<std::size_t> send_file(int fd, std::uint64_t offset, std::size_t size) override {
    auto from = static_cast<off_t>(offset);
    const ssize_t n = ::sendfile(socket_, fd, &from, size);
    if (n < 0 && errno == EIO) return Errc::kIoError;
    return moved(n);
  }
  bool can_send_file() const override { return true; }
  Result<std::size_t> read_to_pipe(int pipe, std::size_t size) override {
    return moved(::splice(socket_, nullptr, pipe, nullptr, size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK));
  }
  bool has_input() const override {
    int bytes = 0;
    return ::ioctl(socket_, FIONREAD, &bytes) == 0 && bytes > 0;
  }

 private:
  int socket_;
};

}  // namespace

std::unique_ptr<Transport> plain_transport(int socket) { return std::make_unique<PlainTransport>(socket); }

}  // namespace spate::nbd
