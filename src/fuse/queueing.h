// SPDX-License-Identifier: Apache-2.0
// Changes that a mount answers itself in directories delegated to it, and sends later (docs/mount.md, "Delegated
// directories").
#pragma once

#include "client/session/queue_memory.h"
#include "fuse/mount.h"

namespace spate::fuse {

/// Answers the making of an object at once, and queues it. Nothing: the servers must be asked. `object`: what the
/// function needs to know besides the name, where `object.where` is set by it.
std::optional<Result<Attributes>> make_queued(Mount& mount, client::QueuedChanges::NewObject object);
/// Opens a file for reading at once, and queues that. Its File is made when it is needed (open_file()). Nothing: the
/// servers must be asked. `direct`: the kernel keeps no pages.
struct OpenedLocally {
  std::uint64_t number = 0;
  std::shared_ptr<OpenFile> open;
  Attributes attributes;
};
std::optional<OpenedLocally> open_queued(Mount& mount, fuse_req_t request, Handle file, bool direct, bool moves_atime);
/// A program reads an open of open_queued() now, and that sets atime.
void note_read(const Mount& mount, OpenFile& open);
/// Removes a name, with unlink or rmdir, at once, and queues that. Nothing: the servers must be asked.
std::optional<Result<void>> remove_queued(Mount& mount, const wire::NamePath& where, wire::Op op);
/// Lists a directory without the servers, in one page. Nothing: the servers must be asked.
std::optional<wire::ReaddirReply> list_queued(Mount& mount, Handle directory);
/// A create that the kernel asks for.
struct QueuedCreate {
  wire::NamePath where;
  std::uint8_t flags = 0;    // wire::OpenFlags
  std::uint8_t by_user = 0;  // kOpenByUser, or 0
  bool direct = false;       // the kernel keeps no pages
};
/// Makes and opens a file at once, and queues that. Nothing: the servers must be asked. Otherwise `info` is what the
/// kernel gets with the entry.
std::optional<Result<fuse_entry_param>> create_queued(Mount& mount, fuse_req_t request, const QueuedCreate& create,
                                                      const wire::NewAttributes& attributes, fuse_file_info& info);
/// The answer to a call that an earlier process has answered itself, as far as it knows. `op`: of the call. Nothing: it
/// has not.
std::optional<Result<Attributes>> made_before(Mount& mount, fuse_req_t request, wire::Op op);
/// Keeps a write to a file whose creation is queued, to be sent after that. False: the caller must open_file() and
/// write through that.
Result<bool> write_queued(Mount& mount, fuse_req_t request, OpenFile& open, const fuse_file_info& info,
                          std::uint64_t offset, ByteView bytes);
/// Ends an open whose File was not needed: nothing was read but from the kernel's pages, nor written but by
/// write_queued(). False: it must be closed as others. Otherwise the open is gone.
bool close_queued(Mount& mount, std::uint64_t number, const std::shared_ptr<OpenFile>& open, std::uint64_t request_id);
/// Whether the earlier process that has made this open has queued its close, too. `request_id`: of the call that
/// closes.
bool closed_before(Mount& mount, const OpenFile& open, std::uint64_t request_id);
/// The error of a queued change of the object, once.
Result<void> queued_failure(fuse_req_t request, Handle object);

/// Sends the changes that an earlier process has queued. Call it before the first request of the kernel is read. Waits
/// for servers that are away, as the calls do that would follow.
void send_inherited_changes(Mount& mount);
/// Waits, for `limit` at most, until the servers have made all queued changes.
bool send_all_queued(Mount& mount, Duration limit);
/// The mount ends: the log names the changes that the servers have not made, which are lost.
void lose_all_queued(Mount& mount);
/// From now on nothing is queued.
void end_queueing(Mount& mount);
/// From now on the log names objects.
void name_queued(Mount& mount);

}  // namespace spate::fuse
