// SPDX-License-Identifier: Apache-2.0
// Signal handlers in a program under `spate run`. signals.sh runs this. A failed check is printed; the exit code is 1.
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr const char* kFile = "/spate/signals";
constexpr const char* kText = "text of a file";

void check(bool good, const char* what) {
  if (good) return;
  std::printf("failed: %s (%s)\n", what, std::strerror(errno));
  std::exit(1);
}

void handle(int number, void (*handler)(int), int flags) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  check(sigaction(number, &action, nullptr) == 0, "sigaction");
}

/// Sends SIGALRM every so many microseconds; 0: stops that.
void tick(long microseconds) {
  const itimerval every{{0, microseconds}, {0, microseconds}};
  check(setitimer(ITIMER_REAL, &every, nullptr) == 0, "setitimer");
}

bool file_is_whole() {
  char text[100] = "";
  const int fd = open(kFile, O_RDONLY);
  if (fd < 0) return false;
  const ssize_t size = read(fd, text, sizeof text - 1);
  return close(fd) == 0 && size == static_cast<ssize_t>(std::strlen(kText)) && std::strcmp(text, kText) == 0;
}

std::atomic<int> whole{0};
std::atomic<int> broken{0};

void use_the_file(int) {
  const int kept = errno;
  ++(file_is_whole() ? whole : broken);
  errno = kept;
}

void a_handler_uses_files() {
  handle(SIGALRM, use_the_file, SA_RESTART);
  tick(2000);
  struct stat st{};
  while (whole + broken < 100) check(stat(kFile, &st) == 0, "stat beside a handler");
  tick(0);
  check(broken == 0, "a handler can use files");
}

sigjmp_buf place;
void jump_out(int) { siglongjmp(place, 1); }

void a_handler_need_not_return() {
  handle(SIGALRM, jump_out, 0);
  volatile int jumps = 0;
  if (sigsetjmp(place, 1) != 0) jumps = jumps + 1;
  if (jumps < 50) {
    tick(2000);
    struct stat st{};
    for (;;) check(stat(kFile, &st) == 0, "stat until a handler jumps out of it");
  }
  tick(0);
  check(file_is_whole(), "files after jumps out of handlers");
}

int wake[2];
void write_to_the_pipe(int) { check(write(wake[1], "x", 1) == 1, "write"); }

/// The list contains a file of Spate without any requested events.
void a_handler_ends_a_wait_by_poll(bool with_mask) {
  handle(SIGALRM, write_to_the_pipe, 0);
  check(pipe(wake) == 0, "pipe");
  const int fd = open(kFile, O_RDONLY);
  pollfd list[2] = {{fd, 0, 0}, {wake[0], POLLIN, 0}};
  sigset_t alarm;
  sigset_t none;
  sigemptyset(&none);
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  if (with_mask) sigprocmask(SIG_BLOCK, &alarm, nullptr);
  tick(300000);
  const timespec limit{60, 0};
  const int found = with_mask ? ppoll(list, 2, &limit, &none) : poll(list, 2, 60000);
  tick(0);
  if (with_mask) sigprocmask(SIG_UNBLOCK, &alarm, nullptr);
  check(found == -1 && errno == EINTR, "a handler ends poll");
  check(poll(list, 2, 0) == 1 && list[0].revents == 0 && list[1].revents == POLLIN,
        "what the handler has written is there");
  list[0].events = POLLIN | POLLOUT;
  check(poll(list, 2, -1) == 2 && list[0].revents == (POLLIN | POLLOUT), "a file is always ready");
  close(fd), close(wake[0]), close(wake[1]);
}

/// Starts a process that holds a lock on the file for `microseconds`. It has the lock when this returns.
pid_t locker(useconds_t microseconds) {
  int ready[2];
  check(pipe(ready) == 0, "pipe");
  const pid_t child = fork();
  if (child == 0) {
    tick(0);
    const int fd = open(kFile, O_RDWR);
    check(flock(fd, LOCK_EX) == 0 && write(ready[1], "x", 1) == 1, "lock");
    usleep(microseconds);  // the time for which the lock is held
    std::_Exit(0);
  }
  char byte = 0;
  check(read(ready[0], &byte, 1) == 1, "the other has the lock");
  close(ready[0]), close(ready[1]);
  return child;
}

std::atomic<int> hits{0};
void count(int) { ++hits; }

void waits_for_locks() {
  const int fd = open(kFile, O_RDWR);
  // As in the kernel, neither a handler with SA_RESTART nor the end of a child without a SIGCHLD handler ends the wait
  // for a lock.
  hits = 0;
  handle(SIGALRM, count, SA_RESTART);
  handle(SIGCHLD, SIG_DFL, 0);
  pid_t child = locker(700000);
  const pid_t other = fork();
  if (other == 0) std::_Exit(0);
  tick(200000);
  check(flock(fd, LOCK_EX) == 0, "a wait for a lock goes on behind a handler with SA_RESTART, and when a child ends");
  tick(0);
  check(hits > 0, "the handler ran");
  check(flock(fd, LOCK_UN) == 0, "unlock");
  check(waitpid(child, nullptr, 0) == child && waitpid(other, nullptr, 0) == other, "wait");
  // A handler without SA_RESTART ends the wait.
  handle(SIGALRM, count, 0);
  child = locker(3000000);
  tick(200000);
  check(flock(fd, LOCK_EX) == -1 && errno == EINTR, "a handler without SA_RESTART ends a wait for a lock");
  tick(0);
  kill(child, SIGKILL);
  check(waitpid(child, nullptr, 0) == child, "wait");
  close(fd);
}

}  // namespace

int main() {
  const int fd = open(kFile, O_RDWR | O_CREAT | O_TRUNC, 0644);
  check(fd >= 0 && write(fd, kText, std::strlen(kText)) > 0 && close(fd) == 0, "make a file");
  a_handler_uses_files();
  a_handler_need_not_return();
  a_handler_ends_a_wait_by_poll(false);
  a_handler_ends_a_wait_by_poll(true);
  waits_for_locks();
  return 0;
}
