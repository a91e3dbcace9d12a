// SPDX-License-Identifier: Apache-2.0
#include "measure/raw_peers.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <tuple>

#include "base/bytes.h"
#include "measure/cpu.h"

namespace spate::measure {
namespace {

// --- the peer: a process of its own. After a failure it exits, and its caller sees the connection end. ---

bool receive_all(int socket, std::byte* into, std::uint64_t size) {
  while (size > 0) {
    const ssize_t n = ::recv(socket, into, size, MSG_WAITALL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    into += n;
    size -= static_cast<std::uint64_t>(n);
  }
  return true;
}

bool send_all(int socket, const std::byte* from, std::uint64_t size) {
  while (size > 0) {
    const ssize_t n = ::send(socket, from, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n;
    size -= static_cast<std::uint64_t>(n);
  }
  return true;
}

bool send_file(int socket, int file, std::uint64_t offset, std::uint64_t size) {
  auto at = static_cast<off_t>(offset);
  while (size > 0) {
    const ssize_t n = ::sendfile(socket, file, &at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    size -= static_cast<std::uint64_t>(n);
  }
  return true;
}

bool whole(ssize_t n, std::uint64_t size) { return n == static_cast<ssize_t>(size); }

bool serve(int socket, int file, const RawRequest& request, Buffer& buffer) {
  std::byte* const memory = buffer.data();
  switch (request.op) {
    case RawRequest::Op::kSend: return send_file(socket, file, request.offset, request.size);
    case RawRequest::Op::kReceive:
      return receive_all(socket, memory, request.size) &&
             whole(::pwrite(file, memory, request.size, static_cast<off_t>(request.offset)), request.size) &&
             send_all(socket, reinterpret_cast<const std::byte*>(&request), sizeof request);
    case RawRequest::Op::kAnswer:
      return receive_all(socket, memory, request.offset) && send_all(socket, memory, request.size);
    case RawRequest::Op::kRead: {
      std::uint64_t place = 0;
      if (request.offset < sizeof place || !receive_all(socket, memory, request.offset)) return false;
      std::memcpy(&place, memory, sizeof place);
      return whole(::pread(file, memory, request.size, static_cast<off_t>(place)), request.size) &&
             send_all(socket, memory, request.size);
    }
  }
  return false;
}

[[noreturn]] void run_peer(int socket, int file) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGPIPE, SIG_IGN);
  Buffer buffer(RawPeers::kMaxBytes, Buffer::kPageAlignment);
  RawRequest request;
  while (receive_all(socket, reinterpret_cast<std::byte*>(&request), sizeof request)) {
    const bool sizes_fit =
        request.size <= buffer.size() && (request.op < RawRequest::Op::kAnswer || request.offset <= buffer.size());
    if (!sizes_fit || !serve(socket, file, request, buffer)) break;
  }
  ::_exit(0);
}

// --- this side ---

struct Pair {
  UniqueFd here;
  UniqueFd there;
};

void no_delay(int socket) {
  const int one = 1;
  std::ignore = ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

Result<Pair> connected_pair() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!listener || ::bind(listener.get(), any, size) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), any, &size) != 0) {
    return errno_error(errno, "listen on loopback");
  }
  Pair pair;
  pair.here.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!pair.here || ::connect(pair.here.get(), any, size) != 0) return errno_error(errno, "connect on loopback");
  pair.there.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!pair.there) return errno_error(errno, "accept on loopback");
  no_delay(pair.here.get());
  no_delay(pair.there.get());
  return pair;
}

Result<UniqueFd> make_file(const std::string& folder, std::uint64_t size) {
  std::string name = folder + "/spate-probe-XXXXXX";
  UniqueFd file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file) return errno_error(errno, "create a file in " + folder);
  ::unlink(name.c_str());
  const Buffer block(1U << 20U, Buffer::kPageAlignment);
  std::memset(const_cast<std::byte*>(block.data()), 0x5a, block.size());
  for (std::uint64_t done = 0; done < size;) {
    const std::uint64_t step = std::min<std::uint64_t>(block.size(), size - done);
    if (!whole(::pwrite(file.get(), block.data(), step, static_cast<off_t>(done)), step)) {
      return errno_error(errno, "fill a file in " + folder);
    }
    done += step;
  }
  return file;
}

}  // namespace

Result<RawPeers> RawPeers::start(const RawPeersOptions& options) {
  RawPeers peers;
  for (std::size_t i = 0; i < options.peers; ++i) {
    SPATE_TRY(std::ignore, peers.add(options));
  }
  return peers;
}

Result<void> RawPeers::add(const RawPeersOptions& options) {
  UniqueFd file;
  if (!options.folder.empty()) {
    SPATE_TRY(file, make_file(options.folder, options.file_bytes));
  }
  SPATE_TRY(Pair pair, connected_pair());
  const pid_t pid = ::fork();
  if (pid < 0) return errno_error(errno, "fork");
  if (pid == 0) {
    // Close the inherited sockets of the other peers. Otherwise their connections would stay open when this process's
    // parent closes them.
    for (const Process& other : processes_) ::close(other.socket.get());
    pair.here.reset();
    run_peer(pair.there.get(), file.get());
  }
  processes_.push_back(Process{std::move(pair.here), pid});
  if (options.cpu < 0) return {};
  return measure::pin(pid, options.cpu);
}

RawPeers::~RawPeers() {
  for (Process& peer : processes_) peer.socket.reset();
  for (const Process& peer : processes_) {
    while (::waitpid(peer.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

double RawPeers::cpu_seconds() const {
  double sum = 0;
  for (const Process& peer : processes_) sum += measure::cpu_seconds(peer.pid).value_or(0.0);
  return sum;
}

Result<void> RawPeers::pin(int cpu) const {
  for (const Process& peer : processes_) {
    SPATE_TRY(std::ignore, measure::pin(peer.pid, cpu));
  }
  return {};
}

}  // namespace spate::measure
