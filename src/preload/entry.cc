// SPDX-License-Identifier: Apache-2.0
// The code that the patched places of the C library jump to (see sites.h), and the handling of a call on Spate.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "preload/filter.h"
#include "preload/front_wait.h"
#include "preload/raw.h"
#include "preload/start.h"

#if !defined(__x86_64__)
#error "the preload library knows x86-64 only"
#endif

// In: the registers of a system call. Out: if rcx is 0, the call is done and rax is the result; if rcx is 1, the kernel
// shall make the call, with the registers as they are then. All other registers but r11 are preserved, as by a system
// call; code around a system call may also rely on the xmm registers. Builds a Frame on the stack.
asm(R"(
  .text
  .globl spate_preload_enter
  .hidden spate_preload_enter
  .type spate_preload_enter, @function
spate_preload_enter:
  pushq %rbp
  movq %rsp, %rbp
  andq $-16, %rsp
  subq $64, %rsp
  movq %rax, 0(%rsp)
  movq %rdi, 8(%rsp)
  movq %rsi, 16(%rsp)
  movq %rdx, 24(%rsp)
  movq %r10, 32(%rsp)
  movq %r8, 40(%rsp)
  movq %r9, 48(%rsp)
  movq %rsp, %rdi
  call spate_preload_wants
  testb %al, %al
  jz 1f
  movq %rsp, %rdi
  subq $256, %rsp
  movaps %xmm0, 0(%rsp)
  movaps %xmm1, 16(%rsp)
  movaps %xmm2, 32(%rsp)
  movaps %xmm3, 48(%rsp)
  movaps %xmm4, 64(%rsp)
  movaps %xmm5, 80(%rsp)
  movaps %xmm6, 96(%rsp)
  movaps %xmm7, 112(%rsp)
  movaps %xmm8, 128(%rsp)
  movaps %xmm9, 144(%rsp)
  movaps %xmm10, 160(%rsp)
  movaps %xmm11, 176(%rsp)
  movaps %xmm12, 192(%rsp)
  movaps %xmm13, 208(%rsp)
  movaps %xmm14, 224(%rsp)
  movaps %xmm15, 240(%rsp)
  call spate_preload_take_over
  movaps 0(%rsp), %xmm0
  movaps 16(%rsp), %xmm1
  movaps 32(%rsp), %xmm2
  movaps 48(%rsp), %xmm3
  movaps 64(%rsp), %xmm4
  movaps 80(%rsp), %xmm5
  movaps 96(%rsp), %xmm6
  movaps 112(%rsp), %xmm7
  movaps 128(%rsp), %xmm8
  movaps 144(%rsp), %xmm9
  movaps 160(%rsp), %xmm10
  movaps 176(%rsp), %xmm11
  movaps 192(%rsp), %xmm12
  movaps 208(%rsp), %xmm13
  movaps 224(%rsp), %xmm14
  movaps 240(%rsp), %xmm15
  addq $256, %rsp
  testb %al, %al
  jz 1f
  movq 56(%rsp), %rax
  xorl %ecx, %ecx
  jmp 2f
1:
  movq 0(%rsp), %rax
  movl $1, %ecx
2:
  movq 8(%rsp), %rdi
  movq 16(%rsp), %rsi
  movq 24(%rsp), %rdx
  movq 32(%rsp), %r10
  movq 40(%rsp), %r8
  movq 48(%rsp), %r9
  movq %rbp, %rsp
  popq %rbp
  ret
  .size spate_preload_enter, .-spate_preload_enter
)");

namespace spate::preload {
namespace {

/// The lowest number of own descriptors: above the numbers that programs expect, below the limit of open files.
int first_own_descriptor() {
  rlimit limit{};
  long most = kMaxDescriptors;
  if (!failed(raw(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit)) && limit.rlim_cur < static_cast<rlim_t>(most))
    most = static_cast<long>(limit.rlim_cur);
  return static_cast<int>(most / 4 * 3);
}

void mark_own(long descriptor) {
  if (front_state.marks[descriptor] == kForeign)
    __atomic_fetch_add(&front_state.special_descriptors, 1, __ATOMIC_RELAXED);
  front_state.marks[descriptor] = kOwn;
}

int keep(int descriptor) {
  const long copy = raw(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, first_own_descriptor());
  if (failed(copy)) return -1;
  if (copy >= kMaxDescriptors) {
    raw(SYS_close, copy);
    return -1;
  }
  mark_own(copy);
  return static_cast<int>(copy);
}

int hide(int descriptor) {
  const int moved = keep(descriptor);
  if (moved < 0 && descriptor >= kMaxDescriptors) {  // too high to be marked
    raw(SYS_close, descriptor);
    return -EMFILE;
  }
  if (moved < 0) {
    mark_own(descriptor);  // no number up there is free, so it stays where it is
    return descriptor;
  }
  raw(SYS_close, descriptor);
  return moved;
}

/// Replaces each descriptor in a received message by what `changed` returns for it.
template <typename Changed>
void for_received(msghdr* message, Changed changed) {
  for (cmsghdr* part = CMSG_FIRSTHDR(message); part != nullptr; part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + sizeof(int) <= part->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int descriptor = -1;
      memcpy(&descriptor, CMSG_DATA(part) + at, sizeof descriptor);
      descriptor = changed(descriptor);
      memcpy(CMSG_DATA(part) + at, &descriptor, sizeof descriptor);
    }
  }
}

/// Makes a call of the library itself. Moves the descriptors that it opens or receives out of the program's way: the
/// program may close a low number that it knows nothing of, and open another file there.
bool own_call(Frame& frame) {
  if (frame.number == SYS_close) {
    const auto number = static_cast<unsigned>(frame.word[0]);
    if (number < static_cast<unsigned>(kMaxDescriptors) && front_state.marks[number] == kOwn) {
      front_state.marks[number] = kForeign;
      __atomic_fetch_sub(&front_state.special_descriptors, 1, __ATOMIC_RELAXED);
    }
    return false;
  }
  const long made =
      raw(frame.number, frame.word[0], frame.word[1], frame.word[2], frame.word[3], frame.word[4], frame.word[5]);
  if (frame.number == SYS_recvmsg) {
    frame.result = made;
    auto* const message = reinterpret_cast<msghdr*>(frame.word[1]);  // NOLINT(performance-no-int-to-ptr)
    if (!failed(made))
      for_received(message, [](int descriptor) {
        const int moved = hide(descriptor);
        return moved < 0 ? -1 : moved;
      });
    return true;
  }
  frame.result = failed(made) ? made : hide(static_cast<int>(made));
  return true;
}

ThreadState* own_thread() { return &thread_state; }

const Front kFront{&front_state, own_thread, hide, keep, in_vfork_child};

/// Whether the library could open a file now.
bool has_descriptor_left() {
  const long made = raw(SYS_openat, AT_FDCWD, "/", O_PATH | O_CLOEXEC);
  if (failed(made)) return false;
  if (made < kMaxDescriptors) {
    raw(SYS_close, made);
    return true;
  }
  const int moved = hide(static_cast<int>(made));
  if (moved < 0) return false;
  front_state.marks[moved] = kForeign;
  __atomic_fetch_sub(&front_state.special_descriptors, 1, __ATOMIC_RELAXED);
  raw(SYS_close, moved);
  return true;
}

/// The back, loaded by the first threads that need it; null if it cannot be loaded.
Take back = nullptr;  // set once

/// Loads the back. Several threads may do that at the same time: the linker gives them the same library. A lock would
/// be taken here before the linker's lock, and after it in a constructor that dlopen() runs, which is a deadlock.
/// `later`: set if the back cannot be loaded now because the program has too many descriptors.
Take load_back(bool& later) {
  static bool failed_before = false;
  const Take loaded = __atomic_load_n(&back, __ATOMIC_ACQUIRE);
  if (loaded != nullptr || __atomic_load_n(&failed_before, __ATOMIC_RELAXED)) return loaded;
  later = !has_descriptor_left();
  if (later) return nullptr;
  void* const library = dlopen(back_library(), RTLD_NOW | RTLD_LOCAL);
  void* const entry = library == nullptr ? nullptr : dlsym(library, kBackEntry);
  if (entry == nullptr) {
    if (!__atomic_exchange_n(&failed_before, true, __ATOMIC_RELAXED)) complain(dlerror());
    return nullptr;
  }
  BackEntry start = nullptr;
  memcpy(&start, &entry, sizeof start);
  const Take made = start(&kFront);
  __atomic_store_n(&back, made, __ATOMIC_RELEASE);
  return made;
}

/// Marks descriptors in a message that belong to files of Spate.
void note_received(msghdr* message) {
  for_received(message, [](int descriptor) {
    note_descriptor(descriptor);
    return descriptor;
  });
}

/// Receives one message, or several.
bool receive(Frame& f) {
  f.result = raw(f.number, f.word[0], f.word[1], f.word[2], f.word[3], f.word[4]);
  if (failed(f.result)) return true;
  if (f.number == SYS_recvmsg) {
    note_received(reinterpret_cast<msghdr*>(f.word[1]));  // NOLINT(performance-no-int-to-ptr)
    return true;
  }
  auto* const messages = reinterpret_cast<mmsghdr*>(f.word[1]);  // NOLINT(performance-no-int-to-ptr)
  for (long i = 0; i < f.result; ++i) note_received(&messages[i].msg_hdr);
  return true;
}

/// Stacks for the work of the back, because a program's thread, a signal handler or a child of posix_spawn() may have
/// only a few KiB. There are as many as calls have run at the same time. They are never freed.
constexpr int kStacks = 256;
constexpr long kStackSize = 1L << 20U;
void* free_stacks[kStacks];

void* take_stack() {
  for (void*& place : free_stacks) {
    if (__atomic_load_n(&place, __ATOMIC_RELAXED) == nullptr) continue;
    if (void* const stack = __atomic_exchange_n(&place, nullptr, __ATOMIC_ACQUIRE)) return stack;
  }
  const long made = raw(SYS_mmap, 0, kStackSize, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  return failed(made) ? nullptr : reinterpret_cast<void*>(made);  // NOLINT(performance-no-int-to-ptr)
}

void give_stack(void* stack) {
  for (void*& place : free_stacks) {
    void* empty = nullptr;
    if (__atomic_compare_exchange_n(&place, &empty, stack, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) return;
  }
  raw(SYS_munmap, stack, kStackSize);
}

/// Calls that reduce the number of descriptors, and calls that need no client. The kernel can make them while the back
/// is not loaded.
bool can_be_the_kernels(long number) {
  return number == SYS_close || number == SYS_close_range || number == SYS_execve || number == SYS_execveat ||
         number == SYS_umask;
}

bool work(Frame* frame) {
  bool later = false;
  const Take take = load_back(later);
  if (later && !can_be_the_kernels(frame->number)) {
    frame->result = -EMFILE;
    return true;
  }
  return take != nullptr && take(frame);
}

bool work_on(void* stack, Frame* frame) {
  bool taken = false;
  asm volatile(
      "movq %%rsp, %%rbx\n\t"
      "movq %[top], %%rsp\n\t"
      "call *%[work]\n\t"
      "movq %%rbx, %%rsp"
      : "=a"(taken), "+D"(frame)
      : [top] "r"(static_cast<char*>(stack) + kStackSize), [work] "r"(&work)
      : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
        "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  return taken;
}

/// Lets the back handle a call. Signals are blocked meanwhile, because a handler of the program must not run in the
/// middle of the client. When signals are let in, the thread is the program's again in every respect. So a handler can
/// make any call and need not return.
bool take_inside(Frame* frame) {
  const std::uint64_t all = ~std::uint64_t{0};
  std::uint64_t before = 0;
  raw(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof all);
  bool taken = true;
  if (void* const stack = take_stack()) {
    thread_state.program_mask = before;
    ++thread_state.inside;
    taken = work_on(stack, frame);
    --thread_state.inside;
    give_stack(stack);
  } else {
    frame->result = -ENOMEM;
  }
  raw(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof before);
  return taken;
}

}  // namespace

extern "C" bool spate_preload_take_over(Frame* frame) {
  if (thread_state.inside > 0) return own_call(*frame);
  if (frame->number == SYS_exit_group && __atomic_load_n(&back, __ATOMIC_ACQUIRE) == nullptr)
    return false;  // there is no client to end
  if (frame->number == SYS_recvmsg || frame->number == SYS_recvmmsg) return receive(*frame);
  if (frame->number == SYS_poll || frame->number == SYS_ppoll) return wait_for_any(*frame);
  for (;;) {
    Frame attempt = *frame;
    const bool taken = take_inside(&attempt);
    if (taken && attempt.result == kAgain) continue;
    *frame = attempt;
    return taken;
  }
}

}  // namespace spate::preload
