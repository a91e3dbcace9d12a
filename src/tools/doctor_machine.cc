// SPDX-License-Identifier: Apache-2.0
// The machine that `spate doctor` runs on.
#include "tools/doctor_machine.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/unique_fd.h"
#include "tools/probe.h"

namespace spate::tools {
namespace {

constexpr std::size_t kLargestFile = 1U << 16U;

struct Listened {
  bool made = false;
  int error = 0;
};

/// Tries to listen at "tcp://HOST:PORT" as a server does, and closes the socket again.
Listened listen_at(const std::string& url) {
  const std::size_t begin = url.find("://") + 3;
  const std::size_t colon = url.rfind(':');
  std::string host = url.substr(begin, colon - begin);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), url.substr(colon + 1).c_str(), &hints, &found) != 0) return {false, EADDRNOTAVAIL};
  Listened outcome{false, EADDRNOTAVAIL};
  for (const addrinfo* one = found; one != nullptr && !outcome.made; one = one->ai_next) {
    const UniqueFd socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    outcome.made = ::bind(socket.get(), one->ai_addr, one->ai_addrlen) == 0 && ::listen(socket.get(), 1) == 0;
    outcome.error = errno;
  }
  ::freeaddrinfo(found);
  return outcome;
}

class SystemMachine final : public Machine {
 public:
  explicit SystemMachine(std::function<bool(const config::ServerConfig&)> answers) : answers_(std::move(answers)) {}

  Result<std::string> read(const std::string& file) const override {
    std::ifstream in(file);
    std::string text(kLargestFile, '\0');
    if (!in.is_open()) return errno_error(errno, file);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    return text;
  }
  Result<std::vector<std::string>> list(const std::string& folder) const override {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      names.push_back(at->path().filename());
    if (error) return errno_error(error.value(), folder);
    return names;
  }
  std::uint64_t limit(Limit which) const override {
    rlimit limit{};
    ::getrlimit(which == Limit::kDescriptors ? RLIMIT_NOFILE : RLIMIT_MEMLOCK, &limit);
    return limit.rlim_max == RLIM_INFINITY ? UINT64_MAX : limit.rlim_max;
  }
  std::string kernel() const override {
    utsname name{};
    ::uname(&name);
    return name.release;
  }
  bool is_root() const override { return ::geteuid() == 0; }
  bool has_program(const std::string& name) const override {
    const char* const list = std::getenv("PATH");
    std::istringstream folders(list == nullptr ? "" : list);
    for (std::string folder; std::getline(folders, folder, ':');) {
      if (::access((folder + "/" + name).c_str(), X_OK) == 0) return true;
    }
    return false;
  }
  Result<void> open_fuse() const override {
    const UniqueFd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (!device) return errno_error(errno, "");
    return {};
  }
  Result<void> make_ring() const override {
    io_uring_params parameters{};
    const UniqueFd ring(static_cast<int>(::syscall(SYS_io_uring_setup, 1, &parameters)));
    if (!ring) return errno_error(errno, "");
    return {};
  }
  bool clock_is_kept() const override {
    timex state{};  // only reads the state
    return ::adjtimex(&state) != TIME_ERROR;
  }
  Result<Space> space(const std::string& folder) const override {
    struct statvfs st{};
    if (::statvfs(folder.c_str(), &st) != 0) return errno_error(errno, "");
    return Space{st.f_blocks * st.f_frsize, st.f_bavail * st.f_frsize};
  }
  Port port(const config::ServerConfig& server, const std::string& url) const override {
    const Listened tried = listen_at(url);
    if (tried.made) return Port::kFree;
    if (tried.error != EADDRINUSE) return Port::kRefused;
    return answers_(server) ? Port::kServer : Port::kOther;
  }

 private:
  const std::function<bool(const config::ServerConfig&)> answers_;
};

}  // namespace

std::unique_ptr<Machine> system_machine(std::function<bool(const config::ServerConfig&)> answers) {
  return std::make_unique<SystemMachine>(std::move(answers));
}

}  // namespace spate::tools
