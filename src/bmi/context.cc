// SPDX-License-Identifier: Apache-2.0
#include "bmi/context.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
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
  if (first && sleep_inside(sleeping)) return;
  poll_.reset(epoll_create1(EPOLL_CLOEXEC));
  SPATE_CHECK(poll_);
  watch(poll_.get(), event_.get());
  for (Module* module : sleeping) watch(poll_.get(), module->wait_descriptor());
  wait_ = poll_.get();
}

// Servers run in one thread. That thread sleeps inside one module, whose descriptor watches the descriptors of the
// other modules and the context's signal. An epoll set over all of them would cost one more system call for each wake,
// and 0.2 us for each level (bmi_tcp_bench).
bool Context::sleep_inside(std::span<Module* const> sleeping) {
  const auto own_wait = std::ranges::find_if(sleeping, [](const Module* module) { return module->has_wait(); });
  if (own_wait == sleeping.end() && sleeping.size() > 1) return false;
  Module* const chosen = own_wait != sleeping.end() ? *own_wait : sleeping.front();
  if (!chosen->also_wait_for(event_.get())) return false;
  for (const Module* module : sleeping) {
    if (module != chosen) SPATE_CHECK(chosen->also_wait_for(module->wait_descriptor()));
  }
  sleeper_ = chosen;
  wait_ = chosen->wait_descriptor();
  return true;
}

void Context::sleep(Duration timeout) {
  if (sleeper_ != nullptr && sleeper_->wait(timeout)) return;
  pollfd readable{wait_, POLLIN, 0};
  timespec limit{timeout.count() / 1'000'000'000, timeout.count() % 1'000'000'000};
  ::ppoll(&readable, 1, timeout.count() < 0 ? nullptr : &limit, nullptr);
}

bool Context::wake_by(int fd) {
  if (sleeper_ != nullptr) return sleeper_->also_wait_for(fd);
  if (poll_) watch(poll_.get(), fd);
  return static_cast<bool>(poll_);
}

void Context::stop_wake_by(int fd) {
  if (sleeper_ != nullptr) return sleeper_->stop_waiting_for(fd);
  if (poll_) SPATE_CHECK(epoll_ctl(poll_.get(), EPOLL_CTL_DEL, fd, nullptr) == 0);
}

void Context::signal() {
  count();
  if (!waiting() || signalled_ || !event_) return;
  signalled_ = true;
  const std::uint64_t one = 1;
  SPATE_CHECK(::write(event_.get(), &one, sizeof one) == sizeof one);
}

void Context::awake() {
  waiting_.store(false, std::memory_order_relaxed);
  if (!signalled_) return;
  signalled_ = false;
  std::uint64_t count = 0;
  SPATE_CHECK(::read(event_.get(), &count, sizeof count) == sizeof count);
}

bool Context::prepare_to_wait() {
  if (completions_.front() != nullptr || !messages_.empty()) return false;
  waiting_.store(true, std::memory_order_relaxed);
  return true;
}

ContextTable::~ContextTable() {
  for (std::atomic<Chunk*>& slot : chunks_) {
    const std::unique_ptr<Chunk> chunk(slot.load());
    for (std::size_t i = 0; chunk != nullptr && i < kChunk; ++i) std::unique_ptr<Context>((*chunk)[i].load()).reset();
  }
}

Context& ContextTable::open(std::span<Module* const> modules) {
  const std::lock_guard lock(mutex_);
  SPATE_CHECK(opened_ < kChunk * chunks_.size());
  std::atomic<Chunk*>& chunk = chunks_[opened_ / kChunk];
  if (chunk.load() == nullptr) chunk.store(std::make_unique<Chunk>().release(), std::memory_order_release);
  const std::uint32_t index = opened_++;
  auto context = std::make_unique<Context>(ContextId(index + 1), modules, index == 0);
  Context* raw = context.release();
  (*chunk.load())[index % kChunk].store(raw, std::memory_order_release);
  return *raw;
}

std::unique_ptr<Context> ContextTable::close(ContextId id) {
  const std::uint32_t index = id.value - 1;
  return std::unique_ptr<Context>((*chunks_[index / kChunk].load())[index % kChunk].exchange(nullptr));
}

Context* ContextTable::find(ContextId id) const {
  const std::uint32_t index = id.value - 1;  // no id (0) yields an index beyond the table
  if (index >= kChunk * chunks_.size()) return nullptr;
  const Chunk* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : (*chunk)[index % kChunk].load(std::memory_order_acquire);
}

}  // namespace spate::bmi
