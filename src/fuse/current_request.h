// SPDX-License-Identifier: Apache-2.0
// CurrentRequest: the request of the kernel that a worker thread handles. Its caller may be killed before the answer.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>

#include <cstdint>
#include <mutex>

namespace spate::fuse {

struct Mount;

/// The request that a worker thread handles; there is one object for each of these threads. A process that is killed
/// while it waits for a server (with a hard mount for long) must be able to die. So its request is answered with EINTR
/// at once, and the operation continues although nobody learns its result. Other signals interrupt nothing, as on local
/// disks.
///
/// Life cycle: begin() for each request, then begin_wait() and end_wait() in pairs. Only its own thread calls it;
/// libfuse reports interrupts on other threads.
class CurrentRequest {
 public:
  /// The object of the calling thread.
  static CurrentRequest& of_this_thread();

  /// Properties of a request that libfuse 3.14 does not pass on.
  struct Hints {
    bool temporary = false;     // create: the file must have no name (O_TMPFILE)
    bool kills_setgid = false;  // setxattr: the access control list that it sets clears setgid
    bool sent_again = false;    // an earlier process of the mount has got the request, too
    bool kills_rights = false;  // write, setattr: the change clears set-uid and set-gid, because the caller is a user
  };
  /// The program's thread that waits for the answer.
  struct Caller {
    uid_t uid = 0;
    gid_t gid = 0;
    pid_t pid = 0;
  };
  /// The thread begins its next request, which belongs to `mount`. `request_id` is its number.
  void begin(Mount& mount, std::uint64_t request_id, Caller caller, Hints hints);
  /// Does not use the request, which may be gone. May be called after the first begin().
  Mount& mount() const { return *mount_; }
  std::uint64_t request_id() const { return request_id_; }
  /// Unlike fuse_req_ctx(), it may be used after a wait.
  const Caller& caller() const { return caller_; }
  const Hints& hints() const { return hints_; }
  /// Call begin_wait() before an operation that may take long, and end_wait() after it. From begin_wait() on the
  /// request may be answered by an interrupt. After end_wait() it is not, and abandoned() tells whether it was.
  void begin_wait(fuse_req_t request);
  void end_wait();
  /// The request has been answered already and must not be used any more.
  bool abandoned() const { return abandoned_; }

  /// Whether a fatal signal is pending for the thread. Only tests replace the function.
  static bool (*is_being_killed)(pid_t thread);

 private:
  static void on_interrupt(fuse_req_t request, void* self);
  void abandon(fuse_req_t request);

  std::mutex mutex_;
  Mount* mount_ = nullptr;
  fuse_req_t request_ = nullptr;
  std::uint64_t request_id_ = 0;
  Caller caller_;
  Hints hints_;
  bool interrupted_ = false;  // libfuse has reported an interrupt to the worker itself
  bool waiting_ = false;      // guarded by mutex_
  bool abandoned_ = false;    // written with mutex_ held while waiting_; the worker reads it while not waiting_
};

}  // namespace spate::fuse
