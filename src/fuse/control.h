// SPDX-License-Identifier: Apache-2.0
// The messages between a mount's supervisor, its serving process, and a command that asks for an upgrade or the status
// (docs/mount.md).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace spate::fuse {

/// The kind of a message. Supervisor and server belong to one user and trust each other. A command is served only after
/// its user was checked.
enum class MessageKind : char {
  kConnected = 'C',  // server: it has reached the servers, so the supervisor can mount; text: libfuse's mount options
  kDevice = 'D',     // supervisor: comes with the descriptor of /dev/fuse
  kServing = 'S',    // server: it answers requests; text: "resend" if the kernel can repeat them
  kUpgrade = 'U',    // supervisor: hand over and end. Command to supervisor: text is the new program's path
  kStop = 'T',       // supervisor: the directory is unmounted, end. Server: a signal demands the end
  kOptions = 'O',    // command to supervisor: what were the options of the mount
  kStatus = 'Q',     // command to supervisor, supervisor to server: what `spate mount --status` prints
  kTold = 'A',       // server: the answer
  kDone = 'K',       // to a command: done; text: the answer
  kFailed = 'F',     // server: it cannot hand over. To a command: it was not done. Text: why
};
struct Message {
  MessageKind word = MessageKind::kFailed;
  std::string text;
  UniqueFd descriptor;
};

/// Sends a message of at most 4000 bytes of text. Never waits. The descriptor is copied.
Result<void> send_message(int socket, MessageKind word, std::string_view text = {}, int descriptor = -1);
/// Waits for a message. kConnectionLost: the other side has ended.
Result<Message> receive_message(int socket);

/// Exit status of a server that has handed over, so that another server must continue.
constexpr int kHandedOver = 75;
/// A server can follow one of a version from kOldestTakeOverVersion to its own. The version says how servers use the
/// front end's part of the handover state. Since version 3 they may have agreed with the kernel on abilities that
/// libfuse does not know (kernel_init.h); state of version 2 has none. Since version 4 they may have agreed to clear
/// set-uid and set-gid (kClearsRights), which a server of version 3 would leave as they are.
constexpr int kTakeOverVersion = 4;
constexpr int kOldestTakeOverVersion = 2;

struct MountedDevice {
  std::string number;  // "major:minor"
  uid_t user = 0;      // the user who mounted it, as the kernel says
};
/// The file system that was mounted last at `directory`, an absolute path, by /proc/self/mountinfo. It sends no request
/// to the mount. kNotFound.
Result<MountedDevice> device_at(const std::string& directory);
/// Listens for commands to the supervisor of a mounted device, which is this process, on a socket of its user
/// (base/local_socket.h). The kernel may give the device's number to a new mount while the supervisor of the earlier
/// mount is still about to end. In that case this call takes the earlier supervisor's place.
Result<UniqueFd> listen_for(const std::string& number);
/// Call it before a socket of listen_for() is closed.
void remove_listener(const std::string& number);
/// Connects to the supervisor, but only to a process of root or of the user who mounted. kNotFound, kNotPermitted.
Result<UniqueFd> connect_to(const MountedDevice& device);
/// Whether the process at the other end of a local socket belongs to root or to the caller's user.
bool is_friend(int socket);

/// Asks the supervisor of the mount at `directory`. Returns the text of its answer without control characters, because
/// the supervisor may belong to another user.
Result<std::string> ask_supervisor(const std::string& directory, MessageKind word, std::string_view text = {});

/// `spate-mount --upgrade DIRECTORY`: asks the mount's supervisor to continue with this program. Returns once it has.
Result<void> request_upgrade(const std::string& directory);

/// `spate-mount --status DIRECTORY`: prints what the mount's supervisor and server report, as lines "name value".
Result<void> print_status(const std::string& directory);

}  // namespace spate::fuse
