// SPDX-License-Identifier: Apache-2.0
#include "fuse/control.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "base/local_packet.h"
#include "base/local_socket.h"
#include "base/printable.h"

namespace spate::fuse {
namespace {

constexpr std::size_t kMostText = 4000;
constexpr int kBacklog = 4;
constexpr int kTimeoutMs = 60'000;

/// Undoes the escapes of mountinfo, which writes blanks and similar characters as three octal digits.
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

std::string socket_name(const std::string& number) { return "mount-" + number; }

/// The user of "user_id=1000" in the options.
uid_t user_in(const std::string& options) {
  constexpr std::string_view kName = "user_id=";
  const std::size_t at = options.find(kName);
  return at == std::string::npos ? 0
                                 : static_cast<uid_t>(std::strtoul(options.c_str() + at + kName.size(), nullptr, 10));
}

}  // namespace

Result<void> send_message(int socket, MessageKind word, std::string_view text, int descriptor) {
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
  if (packet.size == 0) return Error::told(Errc::kConnectionLost, "the other process of the mount has ended");
  Message out;
  out.descriptor = std::move(packet.descriptors[0]);
  out.word = static_cast<MessageKind>(bytes[0]);
  out.text = as_text(ByteView(bytes).subspan(1, packet.size - 1));
  return out;
}

Result<MountedDevice> device_at(const std::string& directory) {
  std::ifstream mounts("/proc/self/mountinfo");
  std::optional<MountedDevice> device;
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string id, parent, number, root, at;
    if (!(words >> id >> parent >> number >> root >> at) || plain(at) != directory) continue;
    std::string options;
    for (std::string word; words >> word;) options = word;  // the options of the file system itself come last
    device = MountedDevice{number, user_in(options)};       // the last mount covers the others
  }
  if (!device) return Error::told(Errc::kNotFound, "nothing is mounted at " + directory);
  return *std::move(device);
}

Result<UniqueFd> listen_for(const std::string& number) { return listen_instead(socket_name(number), kBacklog); }

void remove_listener(const std::string& number) { remove_own_socket(socket_name(number)); }

Result<UniqueFd> connect_to(const MountedDevice& device) {
  auto made = connect_to_user(device.user, socket_name(device.number));
  if (!made && made.code() == Errc::kNotFound)
    return Error::told(Errc::kNotFound, "it has no supervisor here: not a mount of Spate, or of another container");
  return made;
}

bool is_friend(int socket) {
  const auto user = user_behind(socket);
  return user && (*user == 0 || *user == ::geteuid());
}

Result<std::string> ask_supervisor(const std::string& directory, MessageKind word, std::string_view text) {
  std::array<char, PATH_MAX> real{};
  if (::realpath(directory.c_str(), real.data()) == nullptr) return errno_error(errno, directory);
  SPATE_TRY(auto device, device_at(real.data()));
  // Root may upgrade a user's mount. That mount's supervisor then runs the program that root names.
  if (device.user != ::geteuid() && ::geteuid() != 0)
    return Error::told(Errc::kNotPermitted, directory + " is another user's mount");
  auto supervisor = connect_to(device);
  if (!supervisor) return std::move(supervisor).error().within(directory);
  std::ignore = send_message(supervisor->get(), word, text);  // the supervisor may have refused already and said why
  pollfd wait{supervisor->get(), POLLIN, 0};
  if (::poll(&wait, 1, kTimeoutMs) != 1)
    return Error::told(Errc::kTimeout, directory + ": the mount's supervisor does not answer");
  SPATE_TRY(Message answer, receive_message(supervisor->get()));
  std::string told = escape_controls(answer.text, "\n\t");
  if (answer.word != MessageKind::kDone) return Error::told(Errc::kBusy, directory + ": " + told);
  return told;
}

Result<void> request_upgrade(const std::string& directory) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  SPATE_TRY(std::ignore, ask_supervisor(directory, MessageKind::kUpgrade, program));
  return {};
}

Result<void> print_status(const std::string& directory) {
  SPATE_TRY(const std::string told, ask_supervisor(directory, MessageKind::kStatus));
  if (std::fputs(told.c_str(), stdout) == EOF || std::fflush(stdout) != 0) return errno_error(errno, "standard output");
  return {};
}

}  // namespace spate::fuse
