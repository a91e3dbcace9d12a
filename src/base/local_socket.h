// SPDX-License-Identifier: Apache-2.0
// Local sockets by which processes of one user find each other without trusting other users (docs/security.md). Anybody
// could bind a name in a shared folder, so the sockets lie in a folder that belongs to the user.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace spate {

/// This user's folder for sockets. Creates it if needed: mode 0700, owned by the effective user, no symbolic link. The
/// path does not depend on the environment, so that all programs of a user agree on it. kNotPermitted: another user
/// created it first, or it is open to others.
Result<std::string> own_socket_folder();
/// The folders in which processes of `user` may listen. Returns only those that can be trusted: owned by that user,
/// with mode 0700.
std::vector<std::string> socket_folders_of(uid_t user);

/// Listens (SOCK_SEQPACKET) at `name` in own_socket_folder(). Replaces a socket that nobody listens on any more. kBusy:
/// another process listens there.
Result<UniqueFd> listen_for_own_user(std::string_view name, int backlog);
/// The same, but takes the name over from a process that listens there: new connections come to the caller.
Result<UniqueFd> listen_instead(std::string_view name, int backlog);
/// Removes the name of a socket that this process listens on, so that nothing is left behind.
void remove_socket(std::string_view name);
/// The same, unless another process listens there: see listen_instead().
void remove_own_socket(std::string_view name);
/// Connects to `name` in a folder of `user`. The listener must be a process of `user` or of root. kNotFound: nobody
/// listens; kNotPermitted: another user listens, or this process may not enter the folder; kTimeout: the listener's
/// queue has been full for 5 s. The socket's send timeout is 5 s, too.
Result<UniqueFd> connect_to_user(uid_t user, std::string_view name);

/// The user at the other end of a local socket. A connecting process gets the user that called listen(2).
Result<uid_t> user_behind(int socket);

}  // namespace spate
