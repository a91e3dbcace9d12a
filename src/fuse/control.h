// SPDX-License-Identifier: Apache-2.0
// What a mount's supervisor, the process that serves it, and who asks for an upgrade tell each other (docs/mount.md).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace spate::fuse {

/// One message. Supervisor and server are of one user and trust each other; who asks for an upgrade is looked at first.
enum class Word : char {
  kConnected = 'C',  // server: the servers are there, mount now; text: libfuse's mount options
  kDevice = 'D',     // supervisor: with the descriptor of /dev/fuse
  kServing = 'S',    // server: requests are answered; text: "resend" where the kernel can repeat them
  kUpgrade = 'U',    // supervisor: hand over and end. Who asks the supervisor: text is the new program's path
  kStop = 'T',       // supervisor: it is unmounted, end. Server: a signal asks for that
  kOptions = 'O',    // who asks the supervisor: with which options was it mounted
  kStatus = 'Q',     // who asks the supervisor, and the supervisor the server: what `spate mount --status` shows
  kTold = 'A',       // server: the answer
  kDone = 'K',       // to who asks. Text: what it asked for
  kFailed = 'F',     // server: it cannot hand over; to who asks: it was not done. Text: why
};
struct Message {
  Word word = Word::kFailed;
  std::string text;
  UniqueFd descriptor;
};

/// Never waits, at most 4000 bytes of text. The descriptor is copied.
Result<void> send_message(int socket, Word word, std::string_view text = {}, int descriptor = -1);
/// Waits for one. kConnectionLost: the other side has ended.
Result<Message> receive_message(int socket);

/// Exit status of a server that has handed over: another one is to go on.
constexpr int kHandedOver = 75;
/// Servers of which one can follow the other: what they tell each other in the memory of the handover state that is
/// theirs, too. Since version 3 they may have agreed with the kernel on abilities past libfuse (kernel_init.h); none
/// are noted in what version 2 has left.
constexpr int kTakeOverVersion = 3;
constexpr int kOldestTakeOverVersion = 2;

struct MountedDevice {
  std::string number;  // "major:minor"
  uid_t user = 0;      // who has mounted it, as the kernel tells
};
/// The file system mounted last at `directory`, which is absolute, by /proc/self/mountinfo: the mount itself is not
/// asked. kNotFound.
Result<MountedDevice> device_at(const std::string& directory);
/// Where the supervisor of a mounted device listens, which is this process: a socket of its user's
/// (base/local_socket.h). The kernel gives a device's number away again while the supervisor of the mount that had it
/// is still about to end: its place is taken.
Result<UniqueFd> listen_for(const std::string& number);
/// Before a socket of listen_for() is closed.
void remove_listener(const std::string& number);
/// Where who asks connects: only to a process of the user who has mounted it, or of root. kNotFound, kNotPermitted.
Result<UniqueFd> connect_to(const MountedDevice& device);
/// Whether the other side of a local socket is root or the caller's own user.
bool is_friend(int socket);

/// Asks the supervisor of what is mounted at `directory`. Its answer's text, without control characters: it may be
/// another user's.
Result<std::string> ask_supervisor(const std::string& directory, Word word, std::string_view text = {});

/// `spate-mount --upgrade DIRECTORY`: the supervisor of the mount is to go on with this program. Ends when it does.
Result<void> request_upgrade(const std::string& directory);

/// `spate-mount --status DIRECTORY`: prints what supervisor and server of the mount tell, "name value" a line.
Result<void> print_status(const std::string& directory);

}  // namespace spate::fuse
