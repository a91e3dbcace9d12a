// SPDX-License-Identifier: Apache-2.0
// Entry into the back: keeps errno, notices a fork, runs the handler.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "preload/broker_link.h"
#include "preload/calls.h"
#include "preload/front_link.h"
#include "preload/helper.h"
#include "preload/holding.h"
#include "preload/lifetime.h"
#include "preload/locks.h"

namespace spate::preload {
namespace {

std::atomic<int> at_work{0};         // threads inside take()
std::atomic<bool> door_shut{false};  // clients are being ended; new calls wait

/// Keeps other threads from beginning a call before open_door(). False: some are in calls; nothing has changed.
bool shut_door() {
  door_shut = true;
  if (at_work.load() <= 1) return true;
  door_shut = false;
  return false;
}

void open_door() { door_shut = false; }

/// A child of vfork() does not wait: it does not use its parent's client, and may outlive the thread that has shut the
/// door.
void enter() {
  constexpr timespec kPause{0, 100'000};
  for (;;) {
    at_work.fetch_add(1);
    if (!door_shut.load() || front().in_vfork_child()) return;
    at_work.fetch_sub(1);
    raw(SYS_nanosleep, &kPause, nullptr);
  }
}

/// In a child of fork() the client's descriptors are copies of the parent's.
void close_own_descriptors() {
  FrontState& state = *front().state;
  for (int number = 0; number < kMaxDescriptors; ++number) {
    if (state.marks[number] != kOwn) continue;
    raw(SYS_close, number);
    state.marks[number] = kForeign;
    --state.special_descriptors;
  }
}

/// True: this is a child of fork(), and this thread has to drop the parent's state. Threads that come meanwhile wait
/// until it has done so, because they would use the parent's connections.
bool begin_forgetting(std::uint32_t& state) {
  constexpr timespec kPause{0, 50'000};
  for (;;) {
    std::uint32_t seen = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (seen == kSame || front().in_vfork_child()) return false;
    if (seen == kForked &&
        __atomic_compare_exchange_n(&state, &seen, kForgetting, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return true;
    raw(SYS_nanosleep, &kPause, nullptr);
  }
}

/// Calls that need no client. In a child that will become another program these are for the kernel, without a helper.
bool is_kernels_work(long number) {
  return open_handler(number) != nullptr ? number == SYS_close
                                         : descriptor_handler(number) != nullptr || number == SYS_exit_group;
}

Reply run(Handler handler, Frame& frame) {
  try {
    if (front().in_vfork_child() && !is_kernels_work(frame.number)) return run_in_helper(handler, frame);
    return handler(frame);
  } catch (const std::bad_alloc&) {
    return minus(ENOMEM);
  }
}

bool take(Frame* frame) {
  const Handler handler = handler_of(frame->number);
  if (handler == nullptr) return false;
  const int kept = errno;
  int cancellable = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
  notice_fork();
  enter();
  const Reply reply = run(handler, *frame);
  if (reply) frame->result = *reply;
  at_work.fetch_sub(1);
  pthread_setcancelstate(cancellable, nullptr);
  errno = kept;
  return reply.has_value();
}

/// The first use of a thread-local variable of a library that was loaded late takes the dynamic linker's lock, in
/// whichever thread that is. It must not be a thread of the client: a program that opens a library in Spate, or looks
/// for one there, holds that lock in dlopen() until the client has answered. A thread that starts the client has that
/// lock, or can get it. So such a thread uses a variable.
void use_thread_local() {
  thread_local volatile char variable = 0;
  static_cast<void>(variable);  // volatile: this reads it
}

/// A thread that the client starts belongs to the library, not to the program.
struct ThreadStart {
  void* (*run)(void*);
  void* argument;
};

void* run_inside(void* data) {
  const std::unique_ptr<ThreadStart> start(static_cast<ThreadStart*>(data));
  ++front().thread()->inside;
  front().thread()->program_mask = ~std::uint64_t{0};  // signals are for the program's own threads
  return start->run(start->argument);
}

}  // namespace

void notice_fork() {
  std::uint32_t* const state = front().state->same_process;
  if (!begin_forgetting(*state)) return;
  at_work = 0;
  open_door();
  close_own_descriptors();
  forget_clients();
  forget_descriptors();
  forget_spare_states();
  forget_own_turns();
  forget_broker_links();
  forget_record_locks();
  __atomic_store_n(state, kSame, __ATOMIC_RELEASE);
}

/// The door stays shut. Otherwise calls of other threads would be cut off.
void end_everything() {
  if (!any_client_started() || !shut_door()) return;
  lose_everything();
  end_clients();
}

void end_before_exec() {
  if (!any_client_started() || !shut_door()) return;
  if (hand_everything_over()) end_clients();  // otherwise the session and its opens end with its lease
  open_door();                                // the exec may still fail
}

Handler handler_of(long number) {
  for (const auto group : {open_handler, data_handler, name_handler, attribute_handler, descriptor_handler,
                           directory_handler, memory_handler, wait_handler, process_handler}) {
    if (const Handler handler = group(number)) return handler;
  }
  return nullptr;
}

}  // namespace spate::preload

extern "C" {

spate::preload::Take spate_preload_back(const spate::preload::Front* front) {
  spate::preload::set_front(*front);
  return spate::preload::take;
}

/// Marks the client's own threads (std::thread) as the library's. AddressSanitizer sees each thread end, so it must see
/// it begin. Its own function stands before this library, and RTLD_NEXT looks behind it only.
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
#ifdef SPATE_ADDRESS_SANITIZER
  void* const scope = RTLD_DEFAULT;
#else
  void* const scope = RTLD_NEXT;
#endif
  static const Create create = reinterpret_cast<Create>(dlsym(scope, "pthread_create"));
  if (create == nullptr) return EAGAIN;
  spate::preload::use_thread_local();
  auto start = std::make_unique<spate::preload::ThreadStart>(spate::preload::ThreadStart{run, argument});
  const int error = create(thread, attributes, spate::preload::run_inside, start.get());
  if (error == 0) std::ignore = start.release();
  return error;
}

/// Does not run destructors of the back before the process is gone, because programs write to their streams until then.
int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }
}
