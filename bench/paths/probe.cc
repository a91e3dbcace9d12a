// SPDX-License-Identifier: Apache-2.0
// paths_probe FILE REQUEST_BYTES DEPTH pread|direct: reads the file from beginning to end and sends it to a TCP socket
// of this machine, without a file system around it. Prints JSON: bytes, seconds, processor seconds. It is the reference
// for the io servers' paths `buffered` and `direct`:
//   pread   from the page cache, into one buffer
//   direct  past it (O_DIRECT), by io_uring, DEPTH requests ahead, into memory that the ring knows; sent in order
#include <arpa/inet.h>
#include <fcntl.h>
#include <liburing.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace {

using namespace spate;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

/// A connected socket. The process at its other end drops everything that it receives.
UniqueFd drained_socket() {
  const UniqueFd listening(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listening.get(), any, size) != 0 || ::listen(listening.get(), 1) != 0) die("listen");
  ::getsockname(listening.get(), any, &size);
  UniqueFd near(::socket(AF_INET, SOCK_STREAM, 0));
  if (::connect(near.get(), any, size) != 0) die("connect");
  const UniqueFd far(::accept(listening.get(), nullptr, nullptr));
  const pid_t child = ::fork();
  if (child < 0) die("fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    near = UniqueFd();
    Buffer room(1U << 20U, Buffer::kPageAlignment);  // elsewhere in a page copies may be slow: base/copy.h
    while (::recv(far.get(), room.data(), room.size(), 0) > 0) {
    }
    std::_Exit(0);
  }
  return near;
}

void send_all(int socket, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::send(socket, data, size, MSG_NOSIGNAL);
    if (n <= 0) die("send");
    data += n;
    size -= static_cast<std::size_t>(n);
  }
}

void by_pread(int file, std::size_t size, std::size_t request, int socket) {
  Buffer buffer(request, Buffer::kPageAlignment);
  for (std::size_t at = 0; at + request <= size; at += request) {
    if (::pread(file, buffer.data(), request, static_cast<off_t>(at)) != static_cast<ssize_t>(request)) die("pread");
    send_all(socket, reinterpret_cast<const char*>(buffer.data()), request);
  }
}

void by_ring(int file, std::size_t size, std::size_t request, std::size_t depth, int socket) {
  io_uring ring{};
  if (::io_uring_queue_init(256, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) != 0) die("io_uring");
  void* const memory =
      ::mmap(nullptr, request * depth, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) die("mmap");
  auto* const buffers = static_cast<char*>(memory);
  const iovec all{memory, request * depth};
  if (::io_uring_register_buffers(&ring, &all, 1) != 0) die("register");
  std::vector<bool> arrived(depth);
  std::size_t asked = 0;
  const auto ask = [&] {
    if ((asked + 1) * request > size) return;
    const std::size_t slot = asked % depth;
    io_uring_sqe* const sqe = ::io_uring_get_sqe(&ring);
    ::io_uring_prep_read_fixed(sqe, file, buffers + slot * request, static_cast<unsigned>(request), asked * request, 0);
    ::io_uring_sqe_set_data64(sqe, slot);
    ++asked;
  };
  for (std::size_t i = 0; i < depth; ++i) ask();
  for (std::size_t done = 0; done * request + request <= size; ++done) {
    const std::size_t slot = done % depth;
    while (!arrived[slot]) {
      io_uring_cqe* cqe = nullptr;
      ::io_uring_submit_and_wait(&ring, 1);
      if (::io_uring_wait_cqe(&ring, &cqe) != 0 || cqe->res != static_cast<int>(request)) die("read");
      arrived[::io_uring_cqe_get_data64(cqe)] = true;
      ::io_uring_cqe_seen(&ring, cqe);
    }
    send_all(socket, buffers + slot * request, request);
    arrived[slot] = false;
    ask();
  }
  ::io_uring_queue_exit(&ring);
}

double cpu_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         static_cast<double>(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const std::size_t request = std::stoul(argv[2]);
  const std::size_t depth = std::stoul(argv[3]);
  const bool direct = std::string(argv[4]) == "direct";
  const UniqueFd file(::open(argv[1], O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0)));
  struct stat st{};
  if (!file || ::fstat(file.get(), &st) != 0) die(argv[1]);
  const auto size = static_cast<std::size_t>(st.st_size) / request * request;
  const UniqueFd socket = drained_socket();
  const SystemClock clock;
  const double cpu = cpu_seconds();
  const MonoTime begin = clock.now();
  if (direct)
    by_ring(file.get(), size, request, depth, socket.get());
  else
    by_pread(file.get(), size, request, socket.get());
  std::printf("{\"bytes\": %zu, \"seconds\": %.6f, \"cpu\": %.6f}\n", size,
              static_cast<double>((clock.now() - begin).count()) / 1e9, cpu_seconds() - cpu);
  return 0;
}
