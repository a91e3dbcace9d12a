// SPDX-License-Identifier: Apache-2.0
// FileSystem: the calls of POSIX on a file system. All front ends use it; each maps its descriptors itself.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "posix/open_file.h"
#include "posix/path_at.h"
#include "posix/walk.h"

namespace spate::posix {

struct FileSystemOptions {
  /// Bits that are removed from the modes of new objects, unless the directory has a default access control list. A
  /// front end whose umask changes adds it to each mode instead, from bit wire::NewAttributes::kUmaskShift on.
  std::uint32_t umask = 0;
  /// The place of this file system in the tree that the program sees ("/spate"). An absolute link whose target lies
  /// below it is followed there. A link that leads out ends the call with kCrossDevice, and the error's context is the
  /// path to continue with (it begins with '/'). Empty: absolute links begin at the file system's root.
  std::string link_prefix;
};

struct OpenRequest {
  PathAt where;
  int flags = 0;  // of open(2): access mode, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY, O_NOFOLLOW, O_PATH,
                  // O_SYNC, O_TMPFILE
  std::uint32_t mode = 0;  // of a new object; the umask is removed from it
  wire::LayoutHints layout;
};

/// The calls of POSIX on one file system. Every function has the name of its system call and fails as that call does
/// (posix/errno.h gives the errno). The meta server walks the paths in the operation's own transaction, so a call is
/// one request unless its comment says otherwise.
///
/// Life cycle: construct -> calls -> destroyed. It keeps nothing at the servers, so nothing needs to be stopped. All
/// calls have ended, and all OpenFiles are closed, before the client is stopped. Not thread-safe: one executor, any
/// number of calls at a time. Not movable.
class FileSystem {
 public:
  /// `client` outlives this object and its OpenFiles.
  FileSystem(client::Client& client, FileSystemOptions options);
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  /// kNoSuchDevice: the object is a fifo, socket or device. O_DIRECT and O_NONBLOCK have no effect. A directory costs a
  /// second request.
  job::Task<Result<std::unique_ptr<OpenFile>>> open(OpenRequest request);

  job::Task<Result<Attributes>> stat(PathAt where);
  /// The answer of stat, if the client has it under a lease; otherwise nothing. Thread-safe. Does not wait for the
  /// executor.
  std::optional<Result<Attributes>> kept_attributes(const PathAt& where) const;
  /// `wanted`: R_OK | W_OK | X_OK, or F_OK.
  job::Task<Result<void>> access(PathAt where, int wanted);
  job::Task<Result<std::string>> readlink(PathAt where);
  /// `mode` has the S_IFMT bits of a file, fifo, socket or device.
  job::Task<Result<Attributes>> mknod(PathAt where, std::uint32_t mode, std::uint64_t device);
  job::Task<Result<Attributes>> mkdir(PathAt where, std::uint32_t mode);
  job::Task<Result<void>> rmdir(PathAt where);
  job::Task<Result<void>> unlink(PathAt where);
  job::Task<Result<Attributes>> symlink(std::string target, PathAt where);
  job::Task<Result<Attributes>> link(PathAt existing, PathAt where);
  /// `flags`: RENAME_NOREPLACE or RENAME_EXCHANGE; kInvalidArgument for others.
  job::Task<Result<void>> rename(PathAt from, PathAt to, unsigned flags);
  job::Task<Result<void>> truncate(PathAt where, std::int64_t size);
  /// chmod, chown and utimensat: sets the attributes that `request` has. Sets the request's `where` itself.
  /// kNotSupported: chmod of a link itself.
  job::Task<Result<Attributes>> set_attributes(PathAt where, wire::SetattrRequest request);

  job::Task<Result<Bytes>> getxattr(PathAt where, std::string name);
  /// `flags`: XATTR_CREATE, XATTR_REPLACE. kArgumentTooLong: the value is too long.
  job::Task<Result<void>> setxattr(PathAt where, std::string name, Bytes value, int flags);
  job::Task<Result<std::vector<std::string>>> listxattr(PathAt where);
  job::Task<Result<void>> removexattr(PathAt where, std::string name);

  job::Task<Result<client::SpaceUse>> statfs() { return client_.statfs(); }
  /// All name-space changes that were acknowledged before the call survive a crash of the meta server's machine.
  job::Task<Result<void>> sync() { return client_.sync(); }

  client::Client& client() { return client_; }

 private:
  struct OpenParams;
  /// The mode of a new object, combined with the umask.
  std::uint32_t new_mode(std::uint32_t mode) const;
  job::Task<Result<std::unique_ptr<OpenFile>>> open_once(const OpenParams& params, wire::NamePath path);
  job::Task<Result<std::unique_ptr<OpenFile>>> open_place(int flags, wire::NamePath path);
  job::Task<Result<void>> check_owner(wire::NamePath path);
  std::unique_ptr<OpenFile> make_open_file(int flags, const Attributes& attributes, std::unique_ptr<client::File> file);

  client::Client& client_;
  const FileSystemOptions options_;
  PathWalk paths_;
};

}  // namespace spate::posix
