// SPDX-License-Identifier: Apache-2.0
#include "preload/helper.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/lifetime.h"

namespace spate::preload {
namespace {

constexpr std::size_t kRoom = 1U << 20U;  // paths and argument lists

struct Shared {
  Frame frame;
  bool done;   // the helper has finished
  bool taken;  // the call has a result, in `frame`
  std::size_t used;
  alignas(16) char room[kRoom];
};

Shared* current_call = nullptr;

/// The memory for the calls of a thread's children, one after the other. It belongs to the parent, which shares all its
/// memory with the child. It stays for the next child: the kernel reads it when the child becomes another program.
class ChildMemory {
 public:
  ChildMemory() = default;
  ~ChildMemory() {
    if (shared_ != nullptr) raw(SYS_munmap, shared_, sizeof(Shared));
  }
  ChildMemory(const ChildMemory&) = delete;
  ChildMemory& operator=(const ChildMemory&) = delete;

  /// Null: there is no memory.
  Shared* of(long parent) {
    if (parent_ == parent) return shared_;  // otherwise this is a child of fork(), and the memory is its parent's, too
    const long made = raw(SYS_mmap, 0, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (failed(made)) return nullptr;
    if (shared_ != nullptr) raw(SYS_munmap, shared_, sizeof(Shared));
    shared_ = reinterpret_cast<Shared*>(made);  // NOLINT(performance-no-int-to-ptr)
    parent_ = parent;
    return shared_;
  }

 private:
  Shared* shared_ = nullptr;
  long parent_ = 0;
};

thread_local ChildMemory child_memory;

[[noreturn]] void help(Shared& shared, Handler handler) {
  front().thread()->vfork_parent = 0;
  front().thread()->fork_flags = 0;
  current_call = &shared;
  notice_fork();
  if (const Reply reply = handler(shared.frame)) {
    shared.frame.result = *reply;
    shared.taken = true;
  }
  end_before_exec();
  shared.done = true;
  for (;;) raw(SYS_exit_group, 0);
}

}  // namespace

char* helper_memory(std::size_t size) {
  if (current_call == nullptr) return nullptr;
  const std::size_t rounded = (size + 15) / 16 * 16;
  if (rounded > kRoom - current_call->used) return nullptr;
  char* const memory = current_call->room + current_call->used;
  current_call->used += rounded;
  return memory;
}

Reply run_in_helper(Handler handler, Frame& frame) {
  ThreadState& thread = *front().thread();
  Shared* const memory = child_memory.of(thread.vfork_parent);
  if (memory == nullptr) return minus(ENOMEM);
  Shared& shared = *memory;
  shared.frame = frame;
  shared.done = false;
  shared.taken = false;
  shared.used = 0;
  thread.fork_flags = CLONE_FILES | CLONE_FS;
  const pid_t helper = ::fork();
  if (helper == 0) help(shared, handler);
  thread.fork_flags = 0;
  if (helper < 0) return minus(EAGAIN);
  while (raw(SYS_wait4, helper, nullptr, __WALL, nullptr) == -EINTR) {
  }
  frame = shared.frame;
  if (!shared.done) return minus(EIO);
  return shared.taken ? Reply(shared.frame.result) : kToKernel;
}

}  // namespace spate::preload
