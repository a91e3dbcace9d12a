// SPDX-License-Identifier: Apache-2.0
#include "nbd/socket_source.h"

#include <cerrno>

namespace spate::nbd {

SocketSource::SocketSource(job::Executor& executor) : executor_(executor), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  SPATE_CHECK(epoll_);
  executor_.add_source(*this);
}

SocketSource::~SocketSource() { executor_.remove_source(*this); }

Result<void> SocketSource::add(int fd, std::uint32_t events, ReadyHandler& handler) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return errno_error(errno, "epoll");
  handlers_[fd] = &handler;
  return {};
}

void SocketSource::change(int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  SPATE_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0);
}

void SocketSource::remove(int fd) {
  SPATE_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0);
  handlers_.erase(fd);
  // Events that were collected for it must not reach the next owner of this descriptor number.
  for (std::size_t i = next_event_; i < event_count_; ++i) {
    if (events_[i].data.fd == fd) events_[i].data.fd = -1;
  }
}

std::size_t SocketSource::poll() {
  if (next_event_ == event_count_) collect(0);
  std::size_t called = 0;
  while (next_event_ < event_count_) {
    const epoll_event event = events_[next_event_++];
    const auto found = handlers_.find(event.data.fd);  // an earlier handler may have removed it
    if (found == handlers_.end() || found->second == nullptr) continue;
    found->second->on_ready(event.events);
    ++called;
  }
  return called;
}

void SocketSource::collect(int timeout_ms) {
  const int n = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), timeout_ms);
  next_event_ = 0;
  event_count_ = n > 0 ? static_cast<std::size_t>(n) : 0;
}

bool SocketSource::wake_by(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  SPATE_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
  handlers_[fd] = nullptr;
  return true;
}

void SocketSource::stop_wake_by(int fd) { remove(fd); }

void SocketSource::wait(Duration timeout) {
  const auto ms =
      timeout.count() < 0 ? -1 : static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(timeout).count());
  if (next_event_ == event_count_) collect(ms);  // the next poll() handles them
}

}  // namespace spate::nbd
