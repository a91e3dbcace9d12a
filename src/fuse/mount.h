// SPDX-License-Identifier: Apache-2.0
// Mount: what the handlers of the kernel's requests share.
#pragma once

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 314
#endif
#include <fuse_lowlevel.h>

#include <optional>

#include "assembly/client_process.h"
#include "client/file/kept_pages.h"
#include "fuse/async_releases.h"
#include "fuse/closing_files.h"
#include "fuse/current_request.h"
#include "fuse/kernel_copies.h"
#include "fuse/kernel_locks.h"
#include "fuse/open_directories.h"
#include "fuse/open_files.h"
#include "fuse/options.h"
#include "fuse/read_only.h"
#include "fuse/worker_pool.h"

namespace spate::fuse {

/// One per process (mount()); every worker thread's handlers use it. Nodes have no state here: a node's number is the
/// object's handle, which is never used again, so that forgetting one is nothing and a new process can take a mount
/// over.
struct Mount {
  const MountOptions& options;
  assembly::ClientProcess& process;
  Credential credential;  // that the session acts with
  client::HandoverState& handover;
  KernelCopies* copies = nullptr;                                                   // null: the kernel keeps nothing
  std::shared_ptr<OpenFiles> shared_files = std::make_shared<OpenFiles>(handover);  // closes may outlive the mount
  OpenFiles& files = *shared_files;
  OpenDirectories directories{handover.first_number()};
  client::KeptPages pages{handover.kept()};
  KernelLocks locks{process, handover};
  AsyncReleases releases{process.driver()};
  ClosingFiles closing{process.executor()};
  std::optional<ReadOnly> read_only{};  // once it is mounted
  fuse_session* session = nullptr;      // while it is mounted
  WorkerPool* workers = nullptr;        // while it is served
};

/// Other users than the one that the session acts for may come: the kernel looks at owner, group, mode and lists, and
/// asks for attributes at each part of a path. Else every request is checked by the server, as the mount's user.
inline bool checked_by_kernel(const MountOptions& options) { return options.allow_other; }

/// The mount whose request the calling worker thread handles. The request itself may be gone after the handler's first
/// run(): then answer(), run() and this are all that a handler may use.
inline Mount& this_mount() { return CurrentRequest::of_this_thread().mount(); }

/// The functions that libfuse calls.
const fuse_lowlevel_ops& operations();

// One group of handlers a file; each adds itself.
void add_name_operations(fuse_lowlevel_ops& operations);
void add_attribute_operations(fuse_lowlevel_ops& operations);
void add_data_operations(fuse_lowlevel_ops& operations);
void add_directory_operations(fuse_lowlevel_ops& operations);
void add_lock_operations(fuse_lowlevel_ops& operations);

/// The kernel forgets the file's pages, since a lock on it was granted.
void drop_pages_for_lock(Mount& mount, Handle handle);
/// What was locked through this open file, by whomever.
void release_locks(Mount& mount, std::uint64_t open, Handle handle);

/// The open file of a request, opened again when that was done by an earlier process of the mount. kBadDescriptor.
Result<std::shared_ptr<OpenFile>> open_file(fuse_req_t request, std::uint64_t number);

/// Ends the opens of files that programs had closed when the process before ended.
job::Task<Unit> close_left(Mount& mount);

/// Runs `reply` unless the request has been given up; how every handler answers. 0, or what the kernel said.
template <typename Reply>
int answer(Reply&& reply) {
  return CurrentRequest::of_this_thread().abandoned() ? -ENOENT : reply();
}

/// The object of a node, as a place to work on.
wire::NamePath node(fuse_ino_t inode);
wire::NamePath child(fuse_ino_t parent, const char* name);

constexpr double seconds_of(Duration span) { return std::chrono::duration<double>(span).count(); }
struct stat to_stat(const Attributes& attributes);
fuse_entry_param to_entry(const Attributes& attributes);
/// Replies with what a name leads to, which the kernel keeps if it may. `mount` is told apart because the request may
/// be gone.
void reply_entry(Mount& mount, fuse_req_t request, const wire::NamePath& where, const Result<Attributes>& found);
/// How long the kernel may keep that a name leads to an object (0: to nothing), seconds. 0: not at all.
double name_timeout(Mount& mount, const wire::NamePath& where, Handle object);
/// Replies with the errno of the error, or 0; errors that a person must know of are logged.
void reply_error(fuse_req_t request, const Error& error);
void reply_done(fuse_req_t request, const Result<void>& result);

/// What stat would say, if it is kept under a lease: then nobody is asked, and no other thread waited for.
inline std::optional<Result<Attributes>> kept_attributes(const wire::NamePath& where) {
  return this_mount().process.client().kept_attributes(where);
}

/// The attributes of an object, from the servers.
job::Task<Result<Attributes>> stat_at(client::Client& client, wire::NamePath where);
inline job::Task<Result<Attributes>> stat_node(client::Client& client, fuse_ino_t inode) {
  return stat_at(client, node(inode));
}

/// Whether the mount's user may do all of `want` (4 read, 2 write, 1 execute) with the object, where the kernel does
/// not judge that (checked_by_kernel()): by what is kept, or by the server.
Result<void> check_access(fuse_req_t request, fuse_ino_t inode, unsigned want);

/// Owner and mode of something that the calling process creates: a mount of root's acts for every user.
wire::NewAttributes new_attributes(fuse_req_t request, mode_t mode);

/// Runs an operation of the client to its end on this thread. After the caller has given up it does nothing
/// (kCancelled).
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

/// The same of a handler's only operation, which changes names. Of a killed caller's the kernel has heard EINTR and
/// goes on with the names as they were.
template <typename Make>
auto change_names(fuse_req_t request, Make&& make) {
  if (CurrentRequest::of_this_thread().abandoned()) return run(request, make);
  Mount& mount = this_mount();
  auto outcome = run(request, make);
  if (CurrentRequest::of_this_thread().abandoned()) mount.process.client().cluster().attributes().drop_copied_names();
  return outcome;
}

}  // namespace spate::fuse
