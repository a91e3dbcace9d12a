// SPDX-License-Identifier: Apache-2.0
// Mount: the state that the handlers of the kernel's requests share.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>

#include <optional>

#include "assembly/client_process.h"
#include "client/file/cached_pages.h"
#include "client/file/kept_tails.h"
#include "fuse/async_releases.h"
#include "fuse/brief_copies.h"
#include "fuse/closing_files.h"
#include "fuse/current_request.h"
#include "fuse/file_names.h"
#include "fuse/kernel_copies.h"
#include "fuse/kernel_locks.h"
#include "fuse/open_directories.h"
#include "fuse/open_files.h"
#include "fuse/options.h"
#include "fuse/page_order.h"
#include "fuse/read_only.h"
#include "fuse/worker_pool.h"

namespace spate::fuse {

/// The state of one mount in its serving process. There is one in a process. Nodes have no state: a node's number is
/// the object's handle, which is never used again. So forgetting a node takes no action, and a new process can take
/// over a mount.
///
/// Life cycle: made before /dev/fuse is there; take_device() sets `session`, run_server() `read_only`, and
/// KernelSession `workers`, all before a worker reads a request; destroyed after the KernelSession. Threads: the
/// handlers of all worker threads use it. Its members are constant by then, are thread-safe, or, like `closing`, belong
/// to the client's executor.
struct Mount {
  const MountOptions& options;
  assembly::ClientProcess& process;
  Credential credential;  // the session's credential
  client::HandoverState& handover;
  KernelCopies* copies = nullptr;                                                   // with attr_cache=kernel
  BriefCopies* brief_copies = nullptr;                                              // without
  std::shared_ptr<OpenFiles> shared_files = std::make_shared<OpenFiles>(handover);  // closes may outlive the mount
  OpenFiles& files = *shared_files;
  OpenDirectories directories{handover};
  std::shared_ptr<client::CachedPages> shared_pages = std::make_shared<client::CachedPages>(handover.kept());
  client::CachedPages& pages = *shared_pages;
  std::shared_ptr<client::KeptTails> tails = std::make_shared<client::KeptTails>(options.memory / 8);
  KernelLocks locks{process, handover};
  AsyncReleases releases{process.driver()};
  ClosingFiles closing{process.executor()};
  ClosingFiles closing_readers{process.executor()};  // all that may have read
  PageOrder order{process.clock(), process.executor()};
  std::optional<ReadOnly> read_only{};  // set once it is mounted
  fuse_session* session = nullptr;      // set while it is mounted
  WorkerPool* workers = nullptr;        // set while it is served
  bool gathers = false;                 // small writes may be gathered (fuse/gathering.h)
  bool delegates = false;               // changes in directories delegated to it may be queued (fuse/queueing.h)
  FileNames names{};                    // only if it gathers or delegates: for the log
  bool names_files() const { return gathers || delegates; }
};

/// Whether the kernel checks rights. It does if other users than the mount's own may use it: then it looks at owner,
/// group, mode and lists, and asks for the attributes of each part of a path. Otherwise the server checks every request
/// for the mount's user.
inline bool checked_by_kernel(const MountOptions& options) { return options.allow_other; }

/// The mount whose request the calling worker thread handles. The request itself may be gone after the handler's first
/// run(). From then on a handler may use only answer(), run() and this function.
inline Mount& this_mount() { return CurrentRequest::of_this_thread().mount(); }

/// The functions that libfuse calls.
const fuse_lowlevel_ops& operations();

// Each file has one group of handlers. Its function adds them to `operations`.
void add_name_operations(fuse_lowlevel_ops& operations);
void add_attribute_operations(fuse_lowlevel_ops& operations);
void add_data_operations(fuse_lowlevel_ops& operations);
void add_write_operations(fuse_lowlevel_ops& operations);
void add_release_operations(fuse_lowlevel_ops& operations);
void add_directory_operations(fuse_lowlevel_ops& operations);
void add_lock_operations(fuse_lowlevel_ops& operations);

/// Whether a write goes to the end that the file has at the servers, not to the end that the kernel knows. With
/// write-back, dirty pages have their places already; then only one client writes, and it knows the end.
bool appends(const Mount& mount, const fuse_file_info& info);
/// Makes the kernel forget pages because it has nothing, or old data, at a place where data went. Other programs that
/// have the file open here may read that. Waits for reads of these pages.
void drop_pages(Mount& mount, fuse_ino_t inode, std::uint64_t offset, std::size_t size);
/// Makes the kernel forget the file's pages, because a lock on it was granted.
void drop_pages_for_lock(Mount& mount, Handle handle);
/// Releases all locks of all owners that were taken through this open file.
void release_locks(Mount& mount, std::uint64_t open, Handle handle);

/// The open file of a request. It is opened again if an earlier process of the mount opened it. kBadDescriptor.
Result<std::shared_ptr<OpenFile>> open_file(fuse_req_t request, std::uint64_t number);

/// The file of an open whose creation was queued, once the server has made it.
job::Task<Result<std::unique_ptr<client::File>>> open_created(Mount& mount, client::Client& client, OpenFile& open);

/// Earlier reads of programs do not move the atime that is set now. Closes that may tell of reads have ended.
void end_reads(Mount& mount, fuse_req_t request, Handle file);
/// Ends an open whose result no program gets: its close(2) has returned, or its open(2) never will.
void close_file(Mount& mount, std::uint64_t number);
/// Begins to end the opens of those files that programs had closed when the previous process ended. Called before a
/// worker reads a request.
void close_left(Mount& mount);

/// Runs `reply` unless the caller has given up the request. Every handler answers through it. 0, or the kernel's error.
template <typename Reply>
int answer(Reply&& reply) {
  return CurrentRequest::of_this_thread().abandoned() ? -ENOENT : reply();
}

/// The path that stands for the object of a node.
wire::NamePath node(fuse_ino_t inode);
wire::NamePath child(fuse_ino_t parent, const char* name);

constexpr double seconds_of(Duration span) { return std::chrono::duration<double>(span).count(); }
struct stat to_stat(const Attributes& attributes);
fuse_entry_param to_entry(const Attributes& attributes);
/// Lets the kernel keep the entry's attributes for a tick, if a lease permits that.
void let_keep_briefly(Mount& mount, fuse_entry_param& entry);
/// Replies with the object of a name, which the kernel keeps if it may. `mount` is a parameter because the request may
/// be gone.
void reply_entry(Mount& mount, fuse_req_t request, const wire::NamePath& where, const Result<Attributes>& found);
/// For how many seconds the kernel may keep that a name leads to an object (0: to nothing). 0: it must not keep it.
double name_timeout(Mount& mount, const wire::NamePath& where, Handle object);
/// Replies with the errno of the error, or 0. Errors that an administrator must know of are logged.
void reply_error(fuse_req_t request, const Error& error);
void reply_done(fuse_req_t request, const Result<void>& result);

/// The answer of stat, if it is kept under a lease. Asks no server and waits for no other thread.
inline std::optional<Result<Attributes>> kept_attributes(const wire::NamePath& where) {
  return this_mount().process.client().kept_attributes(where);
}

/// The attributes of an object, from the servers.
job::Task<Result<Attributes>> stat_at(client::Client& client, wire::NamePath where);
inline job::Task<Result<Attributes>> stat_node(client::Client& client, fuse_ino_t inode) {
  return stat_at(client, node(inode));
}

/// Whether the mount's user has all rights in `want` (4 read, 2 write, 1 execute) on the object, if the kernel does not
/// check that (checked_by_kernel()). Decided by kept attributes, or by the server.
Result<void> check_access(fuse_req_t request, fuse_ino_t inode, unsigned want);

/// Owner and mode of an object that the calling process creates. A mount of root acts for every user. Call it before
/// the first run() of a handler, since it reads the umask from the request.
wire::NewAttributes new_attributes(fuse_req_t request, mode_t mode);

/// Runs an operation of the client to its end on this thread. If the caller has given up, it does nothing (kCancelled).
template <typename Make>
auto run(fuse_req_t request, Make&& make) {
  using Outcome = decltype(std::declval<Mount&>().process.run(make));
  CurrentRequest& current = CurrentRequest::of_this_thread();
  if (current.abandoned()) return Outcome(Errc::kCancelled);
  Mount& mount = this_mount();
  current.begin_wait(request);
  Outcome outcome = mount.process.run([&](client::Client& c) {
    c.session().next_request_id(current.request_id());
    return make(c);
  });
  current.end_wait();
  return outcome;
}

/// As run(), for an operation that changes names and is the only one of its handler. If the caller is killed, the
/// kernel gets EINTR and continues with the old names.
template <typename Make>
auto change_names(fuse_req_t request, Make&& make) {
  if (CurrentRequest::of_this_thread().abandoned()) return run(request, make);
  Mount& mount = this_mount();
  auto outcome = run(request, make);
  if (CurrentRequest::of_this_thread().abandoned()) mount.process.client().cluster().attributes().drop_copied_names();
  return outcome;
}

}  // namespace spate::fuse
