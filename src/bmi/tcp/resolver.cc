// SPDX-License-Identifier: Apache-2.0
#include "bmi/tcp/resolver.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/thread.h"

namespace spate::bmi::tcp {

struct Resolver::Shared {
  UniqueFd event{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::mutex mutex;
  std::vector<Resolved> results;  // guarded by mutex

  void add(Resolved resolved) {
    const std::lock_guard lock(mutex);
    results.push_back(std::move(resolved));
    const std::uint64_t one = 1;
    SPATE_CHECK(::write(event.get(), &one, sizeof one) == sizeof one);
  }
};

Resolver::Resolver() : Pollable(Kind::kResolver), shared_(std::make_shared<Shared>()) { SPATE_CHECK(shared_->event); }

int Resolver::descriptor() const { return shared_->event.get(); }

void Resolver::start(PeerId peer, std::string host, std::uint16_t port) {
  std::thread thread;
  const bool started = start_thread(thread, [shared = shared_, peer, host = std::move(host), port] {
    shared->add(Resolved{peer, resolve(host, port)});
  });
  if (started) return thread.detach();
  shared_->add(Resolved{peer, {}});  // the name counts as unknown
}

std::vector<Resolved> Resolver::take() {
  const std::lock_guard lock(shared_->mutex);
  std::uint64_t count = 0;
  if (::read(shared_->event.get(), &count, sizeof count) < 0) return {};
  return std::exchange(shared_->results, {});
}

}  // namespace spate::bmi::tcp
