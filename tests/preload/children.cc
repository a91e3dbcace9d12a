// SPDX-License-Identifier: Apache-2.0
// Children of fork, vfork and posix_spawn under `spate run`, and the effects of a thread's calls on other threads.
// children.sh runs this.
//   preload_children TEST FOLDER
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

extern char** environ;

namespace {

std::string folder;  // in Spate; tests make their files there

void check(bool good, const char* what) {
  if (good) return;
  std::printf("failed: %s (%s)\n", what, std::strerror(errno));
  std::fflush(stdout);
  std::_Exit(1);
}

std::string make_file(const char* name, const std::string& text, mode_t mode = 0644) {
  std::string path = folder + "/" + name;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, mode);
  check(fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && close(fd) == 0,
        "make a file");
  return path;
}

/// The exit code; -1: the child did not exit by itself. SIGKILL, since a thread that hangs in a call blocks all others.
int code_of(pid_t child) {
  constexpr int kTimeoutMs = 30000;
  int status = 0;
  for (int waited = 0; waitpid(child, &status, WNOHANG) != child; ++waited) {
    if (waited == kTimeoutMs) kill(child, SIGKILL);
    usleep(1000);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Spawns the program and returns its exit code.
int spawned(const std::string& program) {
  char* arguments[] = {const_cast<char*>(program.c_str()), nullptr};
  pid_t child = -1;
  errno = posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ);
  check(errno == 0, "spawn a program");
  return code_of(child);
}

/// In a child of fork, several threads make the first calls at the same time.
void first_calls() {
  constexpr int kThreads = 4;
  const int fd = open(make_file("first", "0123456789").c_str(), O_RDONLY);
  for (int round = 0; round < 40; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      std::atomic<int> waiting{0};
      std::atomic<int> wrong{0};
      std::vector<std::thread> threads;
      for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&] {
          char text[4] = "";
          for (++waiting; waiting < kThreads;) {
          }
          if (pread(fd, text, 3, 4) != 3 || std::string_view(text) != "456") ++wrong;
        });
      }
      for (std::thread& thread : threads) thread.join();
      _exit(wrong != 0 ? 9 : 0);
    }
    check(code_of(child) == 0, "the first calls of a child of fork");
  }
}

/// A thread looks up relative names all the time, and so does a child of fork.
void relative_calls() {
  make_file("here", "x");
  check(chdir(folder.c_str()) == 0, "chdir");
  std::atomic<bool> stop{false};
  std::thread other([&] {
    struct stat st{};
    while (!stop) {
      check(stat("here", &st) == 0, "stat of a relative name");
      check(chdir(folder.c_str()) == 0, "chdir, again");
    }
  });
  for (int round = 0; round < 100; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      struct stat st{};
      _exit(stat("here", &st) == 0 ? 0 : 9);
    }
    check(code_of(child) == 0, "a relative name in a child of fork");
  }
  stop = true;
  other.join();
}

/// The number of mappings of anonymous memory that the process shares with children.
int shared_memories() {
  FILE* const file = std::fopen("/proc/self/maps", "r");
  check(file != nullptr, "read the list of mappings");
  char line[8192];
  int count = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strstr(line, "/dev/zero (deleted)") != nullptr) ++count;
  }
  std::fclose(file);
  return count;
}

void spawns_leave_no_memory() {
  const std::string script = make_file("script", "#!/bin/sh\nexit 0\n", 0755);
  const int fd = open(script.c_str(), O_RDONLY);  // with an open file, the library marks descriptors for children
  for (const std::string& program : {std::string("/bin/true"), script}) {
    const int times = program == script ? 10 : 600;
    for (int i = 0; i < times; ++i) check(spawned(program) == 0, "a program is spawned");
    check(shared_memories() <= 1, "children leave no memory behind");
  }
  std::thread([&] { check(spawned(script) == 0, "a thread spawns a program"); }).join();
  check(shared_memories() <= 1, "threads leave no memory behind");
  close(fd);
}

std::atomic<int> prepared{0};
pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;
void prepare() {
  ++prepared;
  pthread_mutex_lock(&own_lock);
}
void release() { pthread_mutex_unlock(&own_lock); }

/// posix_spawn runs no handlers of pthread_atfork. The caller may hold a lock that they would take.
void handlers_of_fork() {
  const std::string script = make_file("script", "#!/bin/sh\nexit 7\n", 0755);
  check(pthread_atfork(prepare, release, release) == 0, "pthread_atfork");
  pthread_mutex_lock(&own_lock);
  alarm(30);
  check(spawned(script) == 7, "a script is spawned");
  alarm(0);
  pthread_mutex_unlock(&own_lock);
  check(prepared == 0, "posix_spawn runs no handlers");
  const pid_t child = fork();
  if (child == 0) _exit(pthread_mutex_trylock(&own_lock) == 0 ? 0 : 9);
  check(code_of(child) == 0 && prepared == 1, "fork runs them");
}

std::atomic<int> ended{0};
void count_end(int) { ++ended; }

/// A child of vfork shares the parent's memory and has its signal handlers.
void one_child_one_signal() {
  const std::string script = make_file("script", "#!/bin/sh\nexit 0\n", 0755);
  char* arguments[] = {const_cast<char*>(script.c_str()), nullptr};
  struct sigaction action{};
  action.sa_handler = count_end;
  check(sigaction(SIGCHLD, &action, nullptr) == 0, "sigaction");
  const pid_t child = vfork();
  if (child == 0) {
    execve(script.c_str(), arguments, environ);
    _exit(9);
  }
  check(code_of(child) == 0, "a script in a child of vfork");
  check(ended == 1, "one child, one SIGCHLD");
}

/// One thread is in dlopen, whose constructor uses Spate, while another thread makes its first call of Spate.
void load_a_library() {
  std::thread loader([] {
    if (dlopen(std::getenv("LIBRARY"), RTLD_NOW) == nullptr) std::puts(dlerror());
  });
  alarm(60);
  loader.join();
  check(std::getenv("LOADED") != nullptr, "a constructor uses Spate");
}

std::atomic<bool> rang{false};
void ring(int) { rang = true; }

/// The other end reads nothing, so only a signal ends the wait.
void send_until_a_signal(int to, const char* what) {
  const int fd = open(make_file("long", std::string(1U << 21U, 'x')).c_str(), O_RDONLY);
  struct sigaction action{};
  action.sa_handler = ring;
  check(sigaction(SIGALRM, &action, nullptr) == 0, "sigaction");
  rang = false;
  const itimerval soon{{0, 200000}, {0, 200000}};
  check(setitimer(ITIMER_REAL, &soon, nullptr) == 0, "setitimer");
  std::int64_t sent = 0;
  ssize_t put = 0;
  while ((put = sendfile(to, fd, nullptr, 1U << 20U)) > 0) sent += put;
  const itimerval never{};
  const int error = errno;
  check(setitimer(ITIMER_REAL, &never, nullptr) == 0, "setitimer");
  errno = error;
  check(put == -1 && errno == EINTR && rang, what);
  check(lseek(fd, 0, SEEK_CUR) == sent && sent > 0, "the position is behind what was sent");
  close(fd);
}

void signals_end_sendfile() {
  int ends[2];
  check(pipe(ends) == 0, "pipe");
  send_until_a_signal(ends[1], "a signal ends sendfile to a full pipe");
  check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  send_until_a_signal(ends[1], "a signal ends sendfile to a full socket");
}

/// One call receives several messages, each with a descriptor of Spate.
void several_messages() {
  int ends[2];
  check(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0, "socketpair");
  const int fd = open(make_file("sent", "0123456789").c_str(), O_RDONLY);
  constexpr int kMessages = 3;
  mmsghdr messages[kMessages]{};
  alignas(cmsghdr) char control[kMessages][CMSG_SPACE(sizeof fd)]{};
  char byte[kMessages]{};
  iovec data[kMessages];
  for (int i = 0; i < kMessages; ++i) {
    msghdr& message = messages[i].msg_hdr;
    data[i] = {byte + i, 1};
    message.msg_iov = data + i;
    message.msg_iovlen = 1;
    message.msg_control = control[i];
    message.msg_controllen = sizeof control[i];
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
  }
  check(sendmmsg(ends[0], messages, kMessages, 0) == kMessages, "sendmmsg");
  std::memset(control, 0, sizeof control);
  check(recvmmsg(ends[1], messages, kMessages, 0, nullptr) == kMessages, "recvmmsg");
  for (mmsghdr& message : messages) {
    int received = -1;
    char text[4] = "";
    std::memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message.msg_hdr)), sizeof received);
    check(pread(received, text, 3, 4) == 3 && std::string_view(text) == "456", "a descriptor came with each");
    close(received);
  }
}

struct Test {
  const char* name;
  void (*run)();
};
constexpr Test kTests[] = {{"first_calls", first_calls},
                           {"relative_calls", relative_calls},
                           {"spawns_leave_no_memory", spawns_leave_no_memory},
                           {"handlers_of_fork", handlers_of_fork},
                           {"one_child_one_signal", one_child_one_signal},
                           {"load_a_library", load_a_library},
                           {"signals_end_sendfile", signals_end_sendfile},
                           {"several_messages", several_messages}};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  folder = argv[2];
  for (const Test& test : kTests) {
    if (std::string_view(test.name) != argv[1]) continue;
    test.run();
    return 0;
  }
  return 2;
}
