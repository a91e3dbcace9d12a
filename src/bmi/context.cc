// SPDX-License-Identifier: Apache-2.0
#include "bmi/context.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/check.h"

namespace spate::bmi {
namespace {

void watch(int poll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  SPATE_CHECK(epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) == 0);
}

}  // namespace

Context::Context(ContextId id, std::span<const int> modules) : id_(id) {
  bool any = false;
  for (const int fd : modules) any = any || fd >= 0;
  if (!any) return;
  event_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  poll_.reset(epoll_create1(EPOLL_CLOEXEC));
  SPATE_CHECK(event_ && poll_);
  watch(poll_.get(), event_.get());
  for (const int fd : modules) {
    if (fd >= 0) watch(poll_.get(), fd);
  }
}

void Context::signal() {
  if (!waiting_ || signalled_ || !event_) return;
  signalled_ = true;
  const std::uint64_t one = 1;
  SPATE_CHECK(::write(event_.get(), &one, sizeof one) == sizeof one);
}

void Context::awake() {
  waiting_ = false;
  if (!signalled_) return;
  signalled_ = false;
  std::uint64_t count = 0;
  SPATE_CHECK(::read(event_.get(), &count, sizeof count) == sizeof count);
}

bool Context::prepare_to_wait() {
  if (completions_.front() != nullptr || !messages_.empty()) return false;
  waiting_ = true;
  return true;
}

}  // namespace spate::bmi
