// SPDX-License-Identifier: Apache-2.0
// CurrentRequest: the request of the kernel that a worker thread is at, which its caller may give up when it is killed.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>

#include <cstdint>
#include <mutex>

namespace spate::fuse {

struct Mount;

/// One a worker thread. A process that is killed while it waits for a server (a hard mount waits long) must be able to
/// die: its request is then answered with EINTR at once, and the operation goes on by itself with nobody to hear of it.
/// Other signals interrupt nothing, as on local disks.
class CurrentRequest {
 public:
  /// The calling thread's.
  static CurrentRequest& of_this_thread();

  /// What a request says that libfuse 3.14 does not pass on.
  struct Hints {
    bool temporary = false;     // a create is to have no name (O_TMPFILE)
    bool kills_setgid = false;  // a setxattr that sets an access control list clears setgid
  };
  /// The thread takes its next request, one of `mount`: `request_id` is its number.
  void begin(Mount& mount, std::uint64_t request_id, Hints hints);
  /// Not of the request, which may be gone. Legal from the first begin() on.
  Mount& mount() const { return *mount_; }
  std::uint64_t request_id() const { return request_id_; }
  const Hints& hints() const { return hints_; }
  /// Before and after an operation that may take long.
  void begin_wait(fuse_req_t request);
  void end_wait();
  /// The request has been answered already and must not be touched any more.
  bool abandoned() const { return abandoned_; }

 private:
  static void on_interrupt(fuse_req_t request, void* self);

  std::mutex mutex_;
  Mount* mount_ = nullptr;
  fuse_req_t request_ = nullptr;
  std::uint64_t request_id_ = 0;
  Hints hints_;
  bool waiting_ = false;    // guarded by mutex_
  bool abandoned_ = false;  // written under mutex_ while waiting_; read by the worker when it is not
};

}  // namespace spate::fuse
