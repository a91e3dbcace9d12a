// SPDX-License-Identifier: Apache-2.0
// nbd_probe: shows the best that an NBD server could reach. It is no real server: one thread, and no checks. It reads
// requests as they come, and answers them with pread into one buffer or with sendfile. README.md.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/unique_fd.h"
#include "nbd/protocol.h"

namespace {

using namespace spate;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

UniqueFd listen_at(const std::string& where) {
  const bool local = where.starts_with("unix:");
  UniqueFd fd(::socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_un path{};
  sockaddr_in port{};
  path.sun_family = AF_UNIX;
  port.sin_family = AF_INET;
  port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (local)
    where.copy(path.sun_path, sizeof path.sun_path - 1, 5);
  else
    port.sin_port = htons(static_cast<std::uint16_t>(std::stoi(where)));
  const auto* address = local ? reinterpret_cast<const sockaddr*>(&path) : reinterpret_cast<const sockaddr*>(&port);
  if (::bind(fd.get(), address, local ? sizeof path : sizeof port) != 0 || ::listen(fd.get(), 64) != 0) die("listen");
  return fd;
}

bool send_all(int fd, const std::byte* data, std::size_t size, int flags) {
  while (size > 0) {
    const ssize_t n = ::send(fd, data, size, MSG_NOSIGNAL | flags);
    if (n <= 0) return false;
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

class Probe {
 public:
  Probe(int file, bool by_sendfile) : file_(file), by_sendfile_(by_sendfile), input_(1U << 20U), output_(1U << 20U) {}

  void handshake(int fd, std::uint64_t size) {
    Bytes init;
    nbd::BigEndian(init).u64(nbd::kInitMagic).u64(nbd::kOptionMagic).u16(3);
    std::ignore = send_all(fd, init.data(), init.size(), 0);
    Bytes hello(21);  // flags, and EXPORT_NAME with a name of one byte
    ::recv(fd, hello.data(), hello.size(), MSG_WAITALL);
    Bytes info;
    nbd::BigEndian(info).u64(size).u16(nbd::kHasFlags);
    std::ignore = send_all(fd, info.data(), info.size(), 0);
    have_ = 0;
  }
  /// Answers the requests that have come. False: the client has ended.
  bool turn(int fd) {
    const ssize_t n = ::recv(fd, input_.data() + have_, input_.size() - have_, 0);
    if (n <= 0) return false;
    have_ += static_cast<std::size_t>(n);
    std::size_t at = 0;
    filled_ = 0;
    for (; have_ - at >= nbd::kRequestBytes; at += nbd::kRequestBytes) {
      const auto request = nbd::decode_request(ByteView(input_).subspan(at));
      if (!request || request->command == nbd::Command::kDisconnect) return false;
      if (!answer(fd, *request)) return false;
    }
    have_ -= at;
    std::memmove(input_.data(), input_.data() + at, have_);
    return filled_ == 0 || send_all(fd, output_.data(), filled_, 0);
  }

 private:
  bool answer(int fd, const nbd::Request& request) {
    if (by_sendfile_) {
      std::byte header[nbd::kSimpleReplyBytes];
      nbd::put_simple_reply(header, request.cookie, nbd::Failure::kNone);
      if (!send_all(fd, header, sizeof header, MSG_MORE)) return false;
      auto offset = static_cast<off_t>(request.offset);
      for (std::size_t left = request.length; left > 0;) {
        const ssize_t n = ::sendfile(fd, file_, &offset, left);
        if (n <= 0) return false;
        left -= static_cast<std::size_t>(n);
      }
      return true;
    }
    const std::size_t whole = nbd::kSimpleReplyBytes + request.length;
    if (whole > output_.size()) output_.resize(whole);
    if (filled_ + whole > output_.size() || filled_ >= kGather) {
      if (!send_all(fd, output_.data(), filled_, 0)) return false;
      filled_ = 0;
    }
    nbd::put_simple_reply(output_.data() + filled_, request.cookie, nbd::Failure::kNone);
    if (::pread(file_, output_.data() + filled_ + nbd::kSimpleReplyBytes, request.length,
                static_cast<off_t>(request.offset)) < 0)
      return false;
    filled_ += whole;
    return true;
  }
  static constexpr std::size_t kGather = 256UL * 1024;

  int file_;
  bool by_sendfile_;
  Bytes input_;
  Bytes output_;
  std::size_t have_ = 0;
  std::size_t filled_ = 0;
};

}  // namespace

/// nbd_probe pread|sendfile FILE WHERE. WHERE: a port, or unix:PATH.
int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const UniqueFd file(::open(argv[2], O_RDONLY | O_CLOEXEC));
  struct stat st{};
  if (!file || ::fstat(file.get(), &st) != 0) die(argv[2]);
  const UniqueFd listening = listen_at(argv[3]);
  // The streams need many connections: each turn of the loop serves all that are ready.
  struct Client {
    UniqueFd fd;
    std::unique_ptr<Probe> probe;
  };
  std::vector<Client> clients;
  while (true) {
    std::vector<pollfd> waits{{listening.get(), POLLIN, 0}};
    for (const Client& client : clients) waits.push_back({client.fd.get(), POLLIN, 0});
    ::poll(waits.data(), waits.size(), -1);
    for (std::size_t i = waits.size(); i-- > 1;) {
      if (waits[i].revents != 0 && !clients[i - 1].probe->turn(waits[i].fd))
        clients.erase(clients.begin() + static_cast<std::ptrdiff_t>(i - 1));
    }
    if (waits[0].revents == 0) continue;
    Client client{UniqueFd(::accept(listening.get(), nullptr, nullptr)),
                  std::make_unique<Probe>(file.get(), std::string(argv[1]) == "sendfile")};
    const int one = 1;
    ::setsockopt(client.fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    client.probe->handshake(client.fd.get(), static_cast<std::uint64_t>(st.st_size));
    clients.push_back(std::move(client));
  }
}
