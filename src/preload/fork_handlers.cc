// SPDX-License-Identifier: Apache-2.0
// Stands in front of the C library's pthread_atfork(). The program's handlers must not run when the library forks a
// helper process (helper.h): the program has not forked, and may hold a lock that its handler takes.
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/filter.h"
#include "preload/raw.h"

namespace spate::preload {
namespace {

using Handler = void (*)();
using Register = int (*)(Handler, Handler, Handler, void*);

constexpr int kHandlers = 3;
constexpr size_t kCodeBytes = 4096;

void run_unless_helper(Handler handler) {
  if (thread_state.fork_flags == 0) handler();
}

/// Code that calls run_unless_helper(handler). It is needed because a handler gets no argument.
struct Thunk {
  uint8_t load_handler[2];  // mov $handler, %rdi
  Handler handler;
  uint8_t load_target[2];  // mov $run_unless_helper, %rax
  void (*target)(Handler);
  uint8_t jump[2];  // jmp *%rax
} __attribute__((packed));

/// Replaces the handlers by thunks. If there is no memory for code, the handlers stay as they are.
void wrap(Handler (&handlers)[kHandlers]) {
  const long memory = raw(SYS_mmap, 0, kCodeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (failed(memory)) return;
  auto* const thunks = reinterpret_cast<Thunk*>(memory);  // NOLINT(performance-no-int-to-ptr)
  for (int i = 0; i < kHandlers; ++i)
    thunks[i] = {{0x48, 0xbf}, handlers[i], {0x48, 0xb8}, run_unless_helper, {0xff, 0xe0}};
  if (failed(raw(SYS_mprotect, memory, kCodeBytes, PROT_READ | PROT_EXEC))) {
    raw(SYS_munmap, memory, kCodeBytes);
    return;
  }
  for (int i = 0; i < kHandlers; ++i) {
    if (handlers[i] == nullptr) continue;
    const Thunk* const thunk = thunks + i;
    memcpy(&handlers[i], &thunk, sizeof thunk);
  }
}

}  // namespace
}  // namespace spate::preload

/// pthread_atfork() calls it. The linker still drops the handlers together with their `owner`, a loaded object.
extern "C" __attribute__((visibility("default"))) int __register_atfork(void (*prepare)(), void (*parent)(),
                                                                        void (*child)(), void* owner) {
  using namespace spate::preload;
  const auto next = reinterpret_cast<Register>(dlsym(RTLD_NEXT, "__register_atfork"));
  if (next == nullptr) return ENOSYS;
  Handler handlers[kHandlers] = {prepare, parent, child};
  if (thread_state.inside == 0) wrap(handlers);  // otherwise the handlers are the library's own
  return next(handlers[0], handlers[1], handlers[2], owner);
}
