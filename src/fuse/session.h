// SPDX-License-Identifier: Apache-2.0
// Session: the connection with the kernel: mounting, the threads that read its requests, unmounting.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "fuse/mount.h"

namespace spate::fuse {

/// Life cycle: mount() -> run() -> destroyed, which unmounts what is still mounted and waits for the handlers at work, but
/// not for ever: nobody waits for their answers any more, so the process ends when one of them waits for a dead server.
/// One thread drives it; its workers run the handlers.
class Session {
 public:
  /// Mounts at `options.directory`; the error says what to do. `mount` outlives the session.
  static Result<std::unique_ptr<Session>> mount(Mount& mount);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Serves until somebody unmounts the directory or a signal of `signals` (a signalfd) comes.
  Result<void> run(int signals);

 private:
  struct Deleter {
    void operator()(fuse_session* session) const { fuse_session_destroy(session); }
  };
  Session(Mount& mount, std::unique_ptr<fuse_session, Deleter> session, UniqueFd ended);

  void start_worker();
  void work();
  void handle(fuse_buf& buffer);
  bool wait_for_workers();

  Mount& mount_;
  std::unique_ptr<fuse_session, Deleter> session_;
  UniqueFd ended_;  // eventfd: a worker has seen the end of the connection
  std::once_flag greeted_;  // by the kernel: its first request has been answered
  std::mutex mutex_;
  std::condition_variable one_less_;
  std::size_t workers_ = 0;  // guarded by mutex_; detached threads, that touch nothing after they have left this count
  std::size_t waiting_ = 0;  // guarded by mutex_: those that wait for the kernel
  bool mounted_ = true;  // not yet unmounted by somebody else
};

}  // namespace spate::fuse
