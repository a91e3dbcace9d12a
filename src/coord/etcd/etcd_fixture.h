// SPDX-License-Identifier: Apache-2.0
// EtcdMembers: the members of an etcd cluster, as child processes of a test.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/unique_fd.h"

namespace spate::coord {

/// The program: SPATE_ETCD, or `etcd` in the PATH. Empty: there is none.
inline std::string etcd_program() {
  if (const char* const given = std::getenv("SPATE_ETCD")) return given;
  const char* const path = std::getenv("PATH");
  std::string folders = path == nullptr ? "" : path;
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', at), folders.size());
    const std::string program = folders.substr(at, end - at) + "/etcd";
    if (::access(program.c_str(), X_OK) == 0) return program;
    at = end + 1;
  }
  return {};
}

/// Life cycle: construct, which starts all members -> pause, resume and kill them -> destroyed, which ends all.
class EtcdMembers {
 public:
  explicit EtcdMembers(std::size_t count) {
    std::string folder = (std::filesystem::temp_directory_path() / "spate-etcd-XXXXXX").string();
    SPATE_CHECK(::mkdtemp(folder.data()) != nullptr);
    folder_ = folder;
    std::string cluster;
    for (std::size_t i = 0; i < count; ++i) {
      ports_.push_back(free_port());
      peer_ports_.push_back(free_port());
      cluster += (i == 0 ? "" : ",") + name(i) + "=" + local(peer_ports_[i]);
    }
    for (std::size_t i = 0; i < count; ++i) children_.push_back(start(i, cluster));
  }
  ~EtcdMembers() {
    for (std::size_t i = 0; i < children_.size(); ++i) kill(i);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  EtcdMembers(const EtcdMembers&) = delete;
  EtcdMembers& operator=(const EtcdMembers&) = delete;

  std::vector<std::string> urls() const {
    std::vector<std::string> out;
    for (const int port : ports_) out.push_back(local(port));
    return out;
  }
  void kill(std::size_t number) {
    pid_t& child = children_[number];
    if (child == 0) return;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    child = 0;
  }
  /// The member answers nobody until it is resumed; its connections stay.
  void pause(std::size_t number) {
    ::kill(children_[number], SIGSTOP);
    ::waitpid(children_[number], nullptr, WUNTRACED);  // until its last thread has stopped
  }
  void resume(std::size_t number) { ::kill(children_[number], SIGCONT); }

 private:
  static std::string name(std::size_t number) { return "m" + std::to_string(number); }
  static std::string local(int port) { return "http://127.0.0.1:" + std::to_string(port); }
  /// A port that the kernel chooses. It is free as long as no other program takes it before etcd listens.
  static int free_port() {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    SPATE_CHECK(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    SPATE_CHECK(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    return ntohs(address.sin_port);
  }
  pid_t start(std::size_t number, const std::string& cluster) const {
    const std::string program = etcd_program();
    std::vector<std::string> words = {program,
                                      "--name=" + name(number),
                                      "--data-dir=" + folder_ + "/" + name(number),
                                      "--listen-client-urls=" + local(ports_[number]),
                                      "--advertise-client-urls=" + local(ports_[number]),
                                      "--listen-peer-urls=" + local(peer_ports_[number]),
                                      "--initial-advertise-peer-urls=" + local(peer_ports_[number]),
                                      "--initial-cluster=" + cluster};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const std::string log = folder_ + "/" + name(number) + ".log";
    const UniqueFd out(::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600));
    SPATE_CHECK(out);
    const pid_t child = ::fork();
    SPATE_CHECK(child >= 0);
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // if the test is aborted, its children end, too
      ::dup2(out.get(), STDOUT_FILENO);
      ::dup2(out.get(), STDERR_FILENO);
      ::execv(program.c_str(), arguments.data());
      ::_exit(127);
    }
    return child;
  }

  std::string folder_;
  std::vector<int> ports_;
  std::vector<int> peer_ports_;
  std::vector<pid_t> children_;
};

}  // namespace spate::coord
