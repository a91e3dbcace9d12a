// SPDX-License-Identifier: Apache-2.0
#include "bmi/context.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <vector>

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

Context::Context(ContextId id, std::span<Module* const> modules, bool first) : id_(id) {
  std::vector<Module*> sleeping;
  for (Module* module : modules) {
    if (module->wait_descriptor() >= 0) sleeping.push_back(module);
  }
  if (sleeping.empty()) return;
  event_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  SPATE_CHECK(event_);
  // One network and one thread is how servers run: it sleeps on the network's own descriptor. Nested epoll sets cost
  // about 0.2 us a wake for each level (bmi_tcp_bench).
  if (first && sleeping.size() == 1 && sleeping.front()->also_wait_for(event_.get())) {
    wait_ = sleeping.front()->wait_descriptor();
    return;
  }
  poll_.reset(epoll_create1(EPOLL_CLOEXEC));
  SPATE_CHECK(poll_);
  watch(poll_.get(), event_.get());
  for (Module* module : sleeping) watch(poll_.get(), module->wait_descriptor());
  wait_ = poll_.get();
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
