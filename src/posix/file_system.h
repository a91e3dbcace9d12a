// SPDX-License-Identifier: Apache-2.0
// FileSystem: the calls of POSIX on a file system. Shared by the faces; which descriptor means what is theirs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "posix/open_file.h"
#include "posix/where.h"

namespace spate::posix {

struct FileSystemOptions {
  /// Taken from the modes of what is made, where the directory has no default access control list. A face whose umask
  /// changes gives it with each mode instead, from bit wire::NewAttributes::kUmaskShift on.
  std::uint32_t umask = 0;
  /// Where this file system stands in the tree that the program sees ("/spate"). An absolute link whose target is below
  /// it is followed there; one that leads out ends the call with kCrossDevice and the path to go on with, which begins
  /// with '/', as context. Empty: absolute links begin at the file system's root.
  std::string link_prefix;
};

struct OpenRequest {
  Where where;
  int flags = 0;  // of open(2): access mode, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY, O_NOFOLLOW, O_PATH,
                  // O_SYNC, O_TMPFILE
  std::uint32_t mode = 0;  // of what is created; the umask is taken away
  wire::LayoutHints layout;
};

/// Every function is named for its system call and fails as that does (errno by posix/errno.h). The paths are walked by
/// the meta server in the operation's own transaction: one request a call, but for what says more. One executor; any
/// number of calls at once. Outlives its OpenFiles.
class FileSystem {
 public:
  FileSystem(client::Client& client, FileSystemOptions options);
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;

  /// A fifo, socket or device: kNoSuchDevice. O_DIRECT and O_NONBLOCK change nothing. A directory
  /// costs a second request.
  job::Task<Result<std::unique_ptr<OpenFile>>> open(OpenRequest request);

  job::Task<Result<Attributes>> stat(Where where);
  /// What stat would answer, if the client keeps it under a lease; else nothing. Thread-safe, without a turn of the
  /// executor.
  std::optional<Result<Attributes>> kept_attributes(const Where& where) const;
  /// R_OK | W_OK | X_OK, or F_OK.
  job::Task<Result<void>> access(Where where, int wanted);
  job::Task<Result<std::string>> readlink(Where where);
  /// `mode` with the S_IFMT bits of a file, fifo, socket or device.
  job::Task<Result<Attributes>> mknod(Where where, std::uint32_t mode, std::uint64_t device);
  job::Task<Result<Attributes>> mkdir(Where where, std::uint32_t mode);
  job::Task<Result<void>> rmdir(Where where);
  job::Task<Result<void>> unlink(Where where);
  job::Task<Result<Attributes>> symlink(std::string target, Where where);
  job::Task<Result<Attributes>> link(Where existing, Where where);
  /// RENAME_NOREPLACE, RENAME_EXCHANGE; kInvalidArgument for other flags.
  job::Task<Result<void>> rename(Where from, Where to, unsigned flags);
  job::Task<Result<void>> truncate(Where where, std::int64_t size);
  /// chmod, chown and utimensat: what is given in `request`; its `where` is set here. chmod of a link itself:
  /// kNotSupported.
  job::Task<Result<Attributes>> set_attributes(Where where, wire::SetattrRequest request);

  job::Task<Result<Bytes>> getxattr(Where where, std::string name);
  /// XATTR_CREATE, XATTR_REPLACE. kArgumentTooLong for a value that is too long.
  job::Task<Result<void>> setxattr(Where where, std::string name, Bytes value, int flags);
  job::Task<Result<std::vector<std::string>>> listxattr(Where where);
  job::Task<Result<void>> removexattr(Where where, std::string name);

  job::Task<Result<client::SpaceUse>> statfs() { return client_.statfs(); }
  /// Name-space changes acknowledged before survive a crash of the meta server's machine.
  job::Task<Result<void>> sync() { return client_.sync(); }

  client::Client& client() { return client_; }

 private:
  struct OpenWish;
  /// The bits of a new object, with the umask beside them.
  std::uint32_t new_mode(std::uint32_t mode) const;
  job::Task<Result<std::unique_ptr<OpenFile>>> open_once(const OpenWish& wish, wire::NamePath path);
  job::Task<Result<std::unique_ptr<OpenFile>>> open_place(int flags, wire::NamePath path);
  job::Task<Result<Where>> parent_of(Where where);
  job::Task<Result<void>> check_owner(wire::NamePath path);
  std::unique_ptr<OpenFile> make_open_file(int flags, const Attributes& attributes, std::unique_ptr<client::File> file);

  /// Runs `operation(NamePath)`, which returns a Task and outlives the one returned here, and follows links that end
  /// the walk.
  template <typename Operation>
  auto walk(Where where, const Operation& operation);
  /// The same for two paths: when a link is in the way, both are walked to their last component first.
  template <typename Operation>
  auto walk_both(Where first, Where second, const Operation& operation);
  /// Where a walk goes on that ended with `error`; nothing when that is the end of it.
  Result<wire::NamePath> beyond_link(const Error& error, const wire::NamePath& before) const;

  client::Client& client_;
  const FileSystemOptions options_;
};

}  // namespace spate::posix
