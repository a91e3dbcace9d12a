// SPDX-License-Identifier: Apache-2.0
// Local sockets by which processes of one user find each other, without trusting other users (docs/security.md). A name
// that anybody can bind is not believed: the sockets lie in a folder of the user's own.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace spate {

/// This user's folder for sockets, made where it is not there: mode 0700, owned by the effective user, no symbolic
/// link. It does not depend on the environment, so that all programs of a user agree on it. kNotPermitted: another user
/// has made it first, or it is open to others.
Result<std::string> own_socket_folder();
/// The folders in which processes of `user` may listen, those that can be trusted only: owned by that user and of mode
/// 0700.
std::vector<std::string> socket_folders_of(uid_t user);

/// Listens (SOCK_SEQPACKET) at `name` in own_socket_folder(). A socket that
/// nobody listens on any more is replaced. kBusy: somebody listens there.
Result<UniqueFd> listen_for_own_user(std::string_view name, int backlog);
/// Removes the name of a socket that this process listens on, so that nothing is left behind.
void remove_socket(std::string_view name);
/// Connects to `name` in a folder of `user`. The listener must be a process of `user` or of root. kNotFound: nobody
/// listens; kNotPermitted: another user does, or the folder is not this process's to enter; kTimeout: its queue has
/// been full for 5 s. The socket's send timeout is 5 s, too.
Result<UniqueFd> connect_to_user(uid_t user, std::string_view name);

/// The user at the other side of a local socket: for who has connected, the listener's at listen(2).
Result<uid_t> user_behind(int socket);

}  // namespace spate
