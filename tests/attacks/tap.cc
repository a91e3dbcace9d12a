// SPDX-License-Identifier: Apache-2.0
#include "tests/attacks/tap.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/check.h"
#include "bmi/tcp/endpoint.h"

namespace spate::attacks {

Tap::Tap(const std::string& target, std::function<void(Passing)> change)
    : target_(target), change_(std::move(change)), stop_(::eventfd(0, EFD_CLOEXEC)) {
  const bmi::tcp::Endpoint any = bmi::tcp::parse_url("tcp://127.0.0.1:0").value();
  listener_ = bmi::tcp::listen_on(any).value();
  url_ = bmi::tcp::advertised_url(any, listener_.get());
  thread_ = std::thread([this] { work(); });
}

Tap::~Tap() {
  const std::uint64_t one = 1;
  SPATE_CHECK(::write(stop_.get(), &one, sizeof one) == sizeof one);
  thread_.join();
}

Bytes Tap::seen(std::size_t connection, bool to_server) const {
  const std::lock_guard lock(mutex_);
  return connection < connections_.size() ? connections_[connection]->seen[to_server ? 0 : 1] : Bytes();
}

std::size_t Tap::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

void Tap::accept_one() {
  auto connection = std::make_unique<Connection>();
  connection->ends[0].reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection->ends[0]) return;
  const bmi::tcp::SocketAddress to = bmi::tcp::parse_url(target_)->addresses.at(0);
  connection->ends[1].reset(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  connection->open = ::connect(connection->ends[1].get(), to.get(), to.size) == 0;
  const std::lock_guard lock(mutex_);
  connections_.push_back(std::move(connection));
}

void Tap::pass_some(std::size_t index, std::size_t from) {
  Connection& connection = *connections_[index];
  std::array<std::byte, 65536> part;
  const ssize_t n = ::recv(connection.ends[from].get(), part.data(), part.size(), MSG_DONTWAIT);
  if (n < 0 && errno == EAGAIN) return;
  MutableByteView bytes(part.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  if (n > 0 && change_) change_({index, from == 0, connection.seen[from].size(), bytes});
  if (n > 0) {
    const std::lock_guard lock(mutex_);
    connection.seen[from].insert(connection.seen[from].end(), bytes.begin(), bytes.end());
  }
  while (!bytes.empty()) {
    const ssize_t sent = ::send(connection.ends[1 - from].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  if (n > 0 && bytes.empty()) return;
  connection.open = false;
  for (UniqueFd& end : connection.ends) ::shutdown(end.get(), SHUT_RDWR);
}

void Tap::work() {
  for (;;) {
    std::vector<pollfd> fds{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& connection : connections_) {
      for (const UniqueFd& end : connection->ends) fds.push_back({connection->open ? end.get() : -1, POLLIN, 0});
    }
    ::poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) return;
    for (std::size_t i = 2; i < fds.size(); ++i) {
      if (fds[i].revents != 0 && connections_[(i - 2) / 2]->open) pass_some((i - 2) / 2, i % 2);
    }
    if (fds[1].revents != 0) accept_one();
  }
}

}  // namespace spate::attacks
