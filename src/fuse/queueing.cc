// SPDX-License-Identifier: Apache-2.0
#include "fuse/queueing.h"

#include <fcntl.h>

#include "fuse/gathering.h"
#include "log/log.h"

namespace spate::fuse {
namespace {

job::Task<Unit> send_left(client::Client& client) {
  const auto sent = co_await client.cluster().queued().send_all(client.session().limits());
  if (!sent)
    SPATE_LOG("fuse", warn, "changes of the earlier process wait for a server error={}", sent.error().message());
  co_return Unit();
}

job::Task<bool> send_within(client::Client& client, Duration limit) {
  const bool sent = co_await client.cluster().queued().send_all_within(limit);
  co_return sent;
}

job::Task<Unit> lose_queued(client::Client& client) {
  client.cluster().queued().lose_all(Error(Errc::kTimeout, "the mount ends, and the server does not answer"));
  co_return Unit();
}

job::Task<Unit> name_changes(client::Client& client, const FileNames& names) {
  client.cluster().queued().name_by([&names](Handle object) { return names.path_of(object); });
  co_return Unit();
}

job::Task<Result<void>> failure_of(client::Client& client, Handle object) {
  if (auto failure = client.cluster().queued().failures().take(object)) co_return *std::move(failure);
  co_return Result<void>();
}

/// The rights of a create that may be queued; 0: it may not.
std::uint8_t rights_to_queue(std::uint8_t flags) {
  constexpr std::uint8_t kRights = wire::kOpenRead | wire::kOpenWrite;
  const bool plain = (flags & ~(kRights | wire::kOpenExclusive | wire::kOpenTruncate)) == 0;
  return plain ? static_cast<std::uint8_t>(flags & kRights) : std::uint8_t{0};
}

/// The objects may outlive the mount.
client::HeldChanges::Then when_closed(const Mount& mount, const std::shared_ptr<OpenFile>& open) {
  const bool keeps = mount.options.cache != CacheMode::kNone;
  return [keeps, files = mount.shared_files, pages = mount.shared_pages, tails = mount.tails,
          open](const client::HeldChanges::Sent* sent) {
    if (keeps && sent != nullptr && !open->pages_differ) {
      pages->closed(open->handle, sent->data);
      tails->keep(open->handle, sent->bytes, sent->data.change_sum);
    }
    files->forget(*open);
  };
}

client::QueuedChanges& changes_of(const Mount& mount) { return mount.process.client().cluster().queued(); }

}  // namespace

std::optional<Result<Attributes>> make_queued(Mount& mount, client::QueuedChanges::NewObject object) {
  if (!mount.delegates) return std::nullopt;
  return changes_of(mount).make(object, CurrentRequest::of_this_thread().request_id());
}

std::optional<Result<Attributes>> made_before(Mount& mount, fuse_req_t request, wire::Op op) {
  if (!mount.delegates || !mount.handover.inherited()) return std::nullopt;
  const auto call = changes_of(mount).log().inherited_call(CurrentRequest::of_this_thread().request_id());
  if (!call || call->op != op) return std::nullopt;
  return run(request, [&](client::Client& c) { return stat_at(c, node(call->object.value)); });
}

/// The record is there before the change: after a kill between the two, the kernel repeats the request, and the next
/// process drops the record for it.
std::optional<OpenedLocally> open_queued(Mount& mount, fuse_req_t request, Handle file, bool direct, bool moves_atime) {
  if (!mount.delegates) return std::nullopt;
  const auto made = made_before(mount, request, wire::Op::kOpen);
  if (!made && !changes_of(mount).answers().may_open(file)) return std::nullopt;
  const std::uint64_t request_id = CurrentRequest::of_this_thread().request_id();
  const std::uint64_t number = mount.files.add({nullptr, file, wire::kOpenRead, direct, request_id, true, moves_atime});
  const auto open = mount.files.find(number);
  std::optional<Attributes> attributes;
  if (open->record != nullptr && made && *made) attributes = **made;
  if (open->record != nullptr && !made) attributes = changes_of(mount).answers().open(file, request_id);
  if (attributes) return OpenedLocally{number, open, *attributes};
  std::ignore = mount.files.remove(number);
  mount.files.forget(*open);
  return std::nullopt;
}

void note_read(const Mount& mount, OpenFile& open) { open.note_read(changes_of(mount).log().time(WallTime())); }

std::optional<Result<void>> remove_queued(Mount& mount, const wire::NamePath& where, wire::Op op) {
  if (!mount.delegates) return std::nullopt;
  const std::uint64_t request_id = CurrentRequest::of_this_thread().request_id();
  const auto before = changes_of(mount).log().inherited_call(request_id);
  if (before && before->op == op) return Result<void>();
  return changes_of(mount).answers().remove(where, op, request_id);
}

std::optional<wire::ReaddirReply> list_queued(Mount& mount, Handle directory) {
  if (!mount.delegates) return std::nullopt;
  return changes_of(mount).answers().list(directory);
}

std::optional<Result<fuse_entry_param>> create_queued(Mount& mount, fuse_req_t request, const QueuedCreate& create,
                                                      const wire::NewAttributes& attributes, fuse_file_info& info) {
  if (!mount.delegates) return std::nullopt;
  const std::uint8_t rights = rights_to_queue(create.flags);
  auto made = made_before(mount, request, wire::Op::kCreate);
  if (!made && rights != 0) made = make_queued(mount, {create.where, FileType::kRegular, attributes, {}, rights});
  if (!made) return std::nullopt;
  if (!*made) return Result<fuse_entry_param>(made->error());
  const Attributes& object = **made;
  mount.names.note(object.handle, create.where.start, create.where.path);
  fuse_entry_param entry = to_entry(object);
  let_keep_briefly(mount, entry);
  entry.entry_timeout = name_timeout(mount, create.where, object.handle);
  info.direct_io = create.direct;
  info.keep_cache = 0;
  const auto flags = static_cast<std::uint8_t>(rights | create.by_user);
  info.fh =
      mount.files.add({nullptr, object.handle, flags, create.direct, CurrentRequest::of_this_thread().request_id()});
  const auto open = mount.files.find(info.fh);
  if (open != nullptr) open->moves_atime = (info.flags & O_NOATIME) == 0;
  return Result<fuse_entry_param>(entry);
}

Result<bool> write_queued(Mount& mount, fuse_req_t request, OpenFile& open, const fuse_file_info& info,
                          std::uint64_t offset, ByteView bytes) {
  if (!mount.delegates || !mount.gathers || !open.queued || !may_gather(info)) return false;
  const std::lock_guard lock(open.opening);
  if (open.file != nullptr) return false;
  const client::NewFile file{open.handle, open.flags, open.record};
  if (mount.process.client().queued_files().keep(file, offset, bytes)) return true;
  return run(request, [&](client::Client& c) { return c.queued_files().write(file, offset, bytes); });
}

bool close_queued(Mount& mount, std::uint64_t number, const std::shared_ptr<OpenFile>& open, std::uint64_t request_id) {
  if ((!open->queued && !open->known_later) || open->is_opened()) return false;
  const bool waits = open->queued && changes_of(mount).held().when_closed(open->handle, when_closed(mount, open));
  {
    const std::lock_guard lock(open->opening);  // so that no atime is set between the two
    const auto read_at = open->record == nullptr ? std::nullopt : open->record->close_atime;
    const client::QueuedChanges::Close close{open->handle, client::rights_of(open->flags), read_at};
    if (!changes_of(mount).close(close, request_id)) return false;
    open->closing = true;
  }
  std::ignore = mount.files.remove(number);
  if (!waits) return mount.files.forget(*open), true;
  mount.files.released(*open);
  return true;
}

/// The process was killed before it could forget the open. It queues the close of a file that was written only if there
/// is no other open for writing.
bool closed_before(Mount& mount, const OpenFile& open, std::uint64_t request_id) {
  if (open.record == nullptr) return false;
  const client::ChangeLog& log = changes_of(mount).log();
  const auto call = log.inherited_call(request_id);
  const bool writes = (open.record->open_flags & wire::kOpenWrite) != 0;
  return (call && call->op == wire::Op::kClose) || (writes && log.closed_before(open.handle));
}

Result<void> queued_failure(fuse_req_t request, Handle object) {
  if (!this_mount().delegates || !changes_of(this_mount()).failures().any()) return {};
  return run(request, [object](client::Client& c) { return failure_of(c, object); });
}

void send_inherited_changes(Mount& mount) {
  const std::uint64_t left = changes_of(mount).counters().waiting;
  if (left == 0) return;
  mount.process.run([](client::Client& c) { return send_left(c); });
  SPATE_LOG("fuse", info, "changes that the earlier process has queued were taken over changes={}", left);
}

bool send_all_queued(Mount& mount, Duration limit) {
  if (!changes_of(mount).any()) return true;
  return mount.process.run([limit](client::Client& c) { return send_within(c, limit); });
}

void lose_all_queued(Mount& mount) {
  mount.process.run([](client::Client& c) { return lose_queued(c); });
}

void end_queueing(Mount& mount) { changes_of(mount).end_queueing(); }

void name_queued(Mount& mount) {
  mount.process.run([&mount](client::Client& c) { return name_changes(c, mount.names); });
}

}  // namespace spate::fuse
