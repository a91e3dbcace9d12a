// SPDX-License-Identifier: Apache-2.0
#include "plain_tcp.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/unique_fd.h"

namespace spate::bmi {
namespace {

struct SocketPair {
  UniqueFd a;
  UniqueFd b;
};

SocketPair connected_pair() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  SPATE_CHECK(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  SPATE_CHECK(::listen(listener.get(), 1) == 0);
  SPATE_CHECK(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  SocketPair pair;
  pair.a.reset(::socket(AF_INET, SOCK_STREAM, 0));
  SPATE_CHECK(::connect(pair.a.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  pair.b.reset(::accept(listener.get(), nullptr, nullptr));
  for (const int fd : {pair.a.get(), pair.b.get()}) {
    const int one = 1;
    SPATE_CHECK(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    SPATE_CHECK(::fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  }
  return pair;
}

/// A socket in an epoll set of its own, edge-triggered.
class Waiter {
 public:
  explicit Waiter(int fd) : epoll_(epoll_create1(0)) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    SPATE_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
  }
  void wait(bool spin) const {
    std::array<epoll_event, 8> events{};
    while (::epoll_wait(epoll_.get(), events.data(), 8, spin ? 0 : -1) <= 0) {
    }
  }

 private:
  UniqueFd epoll_;
};

void raw_receive_exactly(int fd, const Waiter& waiter, std::byte* into, std::uint64_t size, bool spin) {
  for (std::uint64_t got = 0; got < size;) {
    const ssize_t n = ::recv(fd, into + got, size - got, 0);
    if (n > 0) {
      got += static_cast<std::uint64_t>(n);
    } else {
      SPATE_CHECK(n < 0 && errno == EAGAIN);
      waiter.wait(spin);
    }
  }
}

}  // namespace

double raw_round_trip(bool spin) {
  const SocketPair pair = connected_pair();
  std::thread server([&] {
    const Waiter waiter(pair.b.get());
    std::array<std::byte, kSmall> data{};
    for (int i = 0; i < kRounds; ++i) {
      waiter.wait(spin);
      ssize_t n = ::recv(pair.b.get(), data.data(), data.size(), 0);
      while (n < 0) {  // an earlier event ended the wait
        waiter.wait(spin);
        n = ::recv(pair.b.get(), data.data(), data.size(), 0);
      }
      SPATE_CHECK(::send(pair.b.get(), data.data(), data.size(), MSG_NOSIGNAL) == kSmall);
    }
  });
  const Waiter waiter(pair.a.get());
  std::array<std::byte, kSmall> data{};
  const double begin = now();
  for (int i = 0; i < kRounds; ++i) {
    SPATE_CHECK(::send(pair.a.get(), data.data(), data.size(), MSG_NOSIGNAL) == kSmall);
    ssize_t n = -1;
    while (n < 0) {
      waiter.wait(spin);
      n = ::recv(pair.a.get(), data.data(), data.size(), 0);
    }
  }
  const double seconds = now() - begin;
  server.join();
  return seconds / kRounds * 1e6;
}

double raw_stream(std::uint64_t size, int file) {
  const SocketPair pair = connected_pair();
  std::thread sender([&] {
    const Waiter waiter(pair.b.get());
    std::vector<std::byte> data(size);
    for (std::uint64_t total = 0; total < kStreamBytes; total += size) {
      for (std::uint64_t sent = 0; sent < size;) {
        auto offset = static_cast<off_t>(sent);
        const ssize_t n = file >= 0 ? ::sendfile(pair.b.get(), file, &offset, size - sent)
                                    : ::send(pair.b.get(), data.data() + sent, size - sent, MSG_NOSIGNAL);
        if (n > 0) {
          sent += static_cast<std::uint64_t>(n);
        } else {
          waiter.wait(false);
        }
      }
    }
  });
  const Waiter waiter(pair.a.get());
  std::vector<std::byte> room(size);
  const double begin = now();
  for (std::uint64_t total = 0; total < kStreamBytes; total += size) {
    raw_receive_exactly(pair.a.get(), waiter, room.data(), size, false);
  }
  const double seconds = now() - begin;
  sender.join();
  return static_cast<double>(kStreamBytes) / seconds / 1e9;
}

}  // namespace spate::bmi
