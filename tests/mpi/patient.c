// SPDX-License-Identifier: Apache-2.0
// Preloaded into the ranks of an MPI program: a rank that waits for others sleeps. MPI libraries poll instead, and with more ranks
// than processors that takes most of a test's processor time. Open MPI calls sched_yield() between two looks, and MPICH looks
// by ucp_worker_progress(), a function of UCX.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

static int pause_a_little(void) {
  const struct timespec pause = {0, 50000};
  return nanosleep(&pause, NULL);
}

int sched_yield(void) { return pause_a_little(); }

unsigned ucp_worker_progress(void* worker) {
  enum { kLooks = 20 };  // that find nothing, before the rank sleeps
  static __thread unsigned idle;
  static unsigned (*real)(void*);
  if (real == NULL) real = (unsigned (*)(void*))dlsym(RTLD_NEXT, "ucp_worker_progress");
  const unsigned did = real(worker);
  idle = did > 0 ? 0 : idle + 1;
  if (idle >= kLooks) {
    idle = 0;
    pause_a_little();
  }
  return did;
}
