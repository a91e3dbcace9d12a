// SPDX-License-Identifier: Apache-2.0
#include "fuse/control.h"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "base/local_packet.h"

namespace spate::fuse {
namespace {

constexpr std::size_t kMostText = 4000;
constexpr int kPatienceMs = 60'000;
constexpr auto kListenPatience = std::chrono::seconds(5);
constexpr auto kListenPause = std::chrono::milliseconds(5);

/// mountinfo writes blanks and the like as three octal digits.
std::string plain(const std::string& escaped) {
  std::string out;
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] == '\\' && i + 3 < escaped.size()) {
      out.push_back(static_cast<char>(std::strtol(escaped.substr(i + 1, 3).c_str(), nullptr, 8)));
      i += 3;
    } else {
      out.push_back(escaped[i]);
    }
  }
  return out;
}

/// No file: nothing is left behind, and the name goes with the process.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& device) {
  const std::string name = "spate-mount/" + device;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(&address.sun_path[1], name.data(), size);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size)};
}

Result<UniqueFd> local_socket() {
  UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!made) return errno_error(errno, "local socket");
  return made;
}

}  // namespace

Result<void> send_message(int socket, Word word, std::string_view text, int descriptor) {
  std::string bytes(1, static_cast<char>(word));
  bytes += text.substr(0, kMostText);
  const int failed =
      send_local_packet(socket, as_bytes(bytes), descriptor < 0 ? std::span<const int>() : std::span(&descriptor, 1));
  if (failed != 0) return errno_error(failed, "tell another process of the mount");
  return {};
}

Result<Message> receive_message(int socket) {
  std::array<std::byte, kMostText + 1> bytes{};
  LocalPacket packet;
  const int failed = receive_local_packet(socket, bytes, packet, true);
  if (failed != 0) return errno_error(failed, "hear of another process of the mount");
  if (packet.size == 0) return Error(Errc::kConnectionLost, "the other process of the mount has ended");
  Message out;
  out.descriptor = std::move(packet.descriptors[0]);
  out.word = static_cast<Word>(bytes[0]);
  out.text = as_text(ByteView(bytes).subspan(1, packet.size - 1));
  return out;
}

Result<std::string> device_at(const std::string& directory) {
  std::ifstream mounts("/proc/self/mountinfo");
  std::string device;
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string id, parent, number, root, at;
    if (words >> id >> parent >> number >> root >> at && plain(at) == directory)
      device = number;  // the last covers the others
  }
  if (device.empty()) return Error(Errc::kNotFound, "nothing is mounted at " + directory);
  return device;
}

Result<UniqueFd> listen_for(const std::string& device) {
  SPATE_TRY(UniqueFd made, local_socket());
  const auto [address, size] = address_of(device);
  const auto limit = std::chrono::steady_clock::now() + kListenPatience;
  while (::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno != EADDRINUSE || std::chrono::steady_clock::now() >= limit)
      return errno_error(errno, "listen for upgrades of the mount");
    std::this_thread::sleep_for(kListenPause);
  }
  if (::listen(made.get(), 4) != 0) return errno_error(errno, "listen for upgrades of the mount");
  return made;
}

Result<UniqueFd> connect_to(const std::string& device) {
  SPATE_TRY(UniqueFd made, local_socket());
  const auto [address, size] = address_of(device);
  if (::connect(made.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    return Error(Errc::kNotFound, "it has no keeper here: not a mount of Spate, or of another container");
  }
  return made;
}

bool is_friend(int socket) {
  ucred who{};
  socklen_t size = sizeof(who);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return false;
  return who.uid == 0 || who.uid == ::geteuid();
}

Result<std::string> ask_keeper(const std::string& directory, Word word, std::string_view text) {
  std::array<char, PATH_MAX> real{};
  if (::realpath(directory.c_str(), real.data()) == nullptr) return errno_error(errno, directory);
  auto device = device_at(real.data());
  if (!device) return std::move(device).error();
  auto keeper = connect_to(*device);
  if (!keeper) return std::move(keeper).error().within(directory);
  // Root may upgrade a user's mount, whose keeper then runs what root names.
  if (!is_friend(keeper->get()) && ::geteuid() != 0)
    return Error(Errc::kNotPermitted, directory + " is another user's mount");
  std::ignore = send_message(keeper->get(), word, text);  // it may have refused already, and says why
  pollfd wait{keeper->get(), POLLIN, 0};
  if (::poll(&wait, 1, kPatienceMs) != 1)
    return Error(Errc::kTimeout, directory + ": the mount's keeper does not answer");
  SPATE_TRY(Message answer, receive_message(keeper->get()));
  if (answer.word != Word::kDone) return Error(Errc::kBusy, directory + ": " + answer.text);
  return std::move(answer.text);
}

Result<void> request_upgrade(const std::string& directory) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  SPATE_TRY(std::ignore, ask_keeper(directory, Word::kUpgrade, program));
  return {};
}

Result<void> print_status(const std::string& directory) {
  SPATE_TRY(const std::string told, ask_keeper(directory, Word::kStatus));
  if (std::fputs(told.c_str(), stdout) == EOF || std::fflush(stdout) != 0) return errno_error(errno, "standard output");
  return {};
}

}  // namespace spate::fuse
