// SPDX-License-Identifier: Apache-2.0
// SocketSource: descriptors as a source of the executor. It calls a handler when a descriptor is ready.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <unordered_map>

#include "base/unique_fd.h"
#include "job/executor.h"

namespace spate::nbd {

/// The handler of a descriptor. In the call it may remove itself and others from the source, and destroy itself.
class ReadyHandler {
 public:
  virtual ~ReadyHandler() = default;
  /// `events`: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR.
  virtual void on_ready(std::uint32_t events) = 0;
};

/// One epoll set, level-triggered. One executor: the constructor adds the source to it. It outlives the handlers.
class SocketSource final : public job::Source {
 public:
  explicit SocketSource(job::Executor& executor);
  ~SocketSource() override;
  SocketSource(const SocketSource&) = delete;
  SocketSource& operator=(const SocketSource&) = delete;

  /// `fd` stays open until it is removed. kNoMemory when the kernel refuses.
  Result<void> add(int fd, std::uint32_t events, ReadyHandler& handler);
  void change(int fd, std::uint32_t events);
  void remove(int fd);

  std::size_t poll() override;
  int wait_descriptor() const override { return epoll_.get(); }
  bool prepare_to_wait() override { return true; }
  bool wake_by(int fd) override;
  void stop_wake_by(int fd) override;
  void wait(Duration timeout) override;

 private:
  void collect(int timeout_ms);

  job::Executor& executor_;
  UniqueFd epoll_;
  // Events of the last sleep or poll(). From next_event_ on, no handler has been called yet.
  std::array<epoll_event, 64> events_{};
  std::size_t next_event_ = 0;
  std::size_t event_count_ = 0;
  std::unordered_map<int, ReadyHandler*> handlers_;  // null: a descriptor that only ends the sleep, and has no handler
};

}  // namespace spate::nbd
