// SPDX-License-Identifier: Apache-2.0
#include "fuse/gathering.h"

#include <fcntl.h>

#include <atomic>

#include "log/log.h"

namespace spate::fuse {
namespace {

job::Task<Result<void>> send_piece(Mount& mount, client::Client& client, client::GatherMemory::Piece& piece) {
  const auto open = mount.files.inherited_writer(piece.handle);
  if (piece.later.queued != 0 && (piece.later.closed != 0 || open == nullptr)) {
    auto sent = co_await client.queued_files().take_over(piece);
    if (open != nullptr) mount.files.forget_closed(*open);
    co_return sent;
  }
  if (open == nullptr) co_return Error(Errc::kNotFound, "the earlier process did not note its open");
  if (open->file == nullptr) {
    SPATE_CO_TRY(open->file, co_await client.open_again(*open->record));
  }
  const std::string what = client::GatherMemory::text(piece);
  if (piece.later.queued != 0) {
    auto sent = co_await client.queued_files().take_over(piece, *open->file);
    co_return sent;
  }
  co_await open->file->take_over(piece);
  if (open->file->gathering()->failed()) co_return Result<void>();  // the log names what is lost
  SPATE_LOG("fuse", info, "writes that the earlier process has gathered {} were taken over", what);
  co_return Result<void>();
}

job::Task<Unit> send_pieces(Mount& mount, client::Client& client, client::GatherMemory& memory) {
  client::GatheredWrites& gathered = client.cluster().gathered();
  for (client::GatherMemory::Piece* const piece : memory.inherited()) {
    const auto taken = co_await send_piece(mount, client, *piece);
    if (!taken && piece->in_use != 0) {
      gathered.note_loss(*piece, taken.error());
      memory.give_back(*piece);
    }
    gathered.taken_over();
  }
  co_return Unit();
}

job::Task<Result<void>> send_file(client::File& file) {
  co_await file.gathering()->send();
  co_return file.gathering()->failed() ? file.check_lost() : Result<void>();
}

job::Task<Unit> send_all(client::Client& client) {
  co_await client.cluster().gathered().send_all();
  co_return Unit();
}

job::Task<Unit> lose_all(client::Client& client) {
  client.queued_files().adopt();
  client.cluster().gathered().lose_all(Error(Errc::kTimeout, "the mount ends, and the servers do not answer"));
  co_return Unit();
}

job::Task<Unit> send_last(client::Client& client, Duration limit) {
  client.cluster().gathered().end_gathering();
  client.queued_files().adopt();
  std::ignore = co_await client.cluster().gathered().send_all_within(limit);
  co_return Unit();
}

job::Task<Unit> name_by(client::Client& client, const FileNames& names) {
  client.cluster().gathered().name_files_by([&names](Handle file) { return names.path_of(file); });
  co_return Unit();
}

job::Task<bool> send_all_within(client::Client& client, Duration limit) {
  const bool sent = co_await client.cluster().gathered().send_all_within(limit);
  co_return sent;
}

}  // namespace

/// With O_DIRECT a program asks for its data to be moved at once. A dirty page of a map may be written at any time,
/// also beside another write.
bool may_gather(const fuse_file_info& info) {
  return info.writepage == 0 && (info.flags & (O_SYNC | O_DSYNC | O_DIRECT)) == 0;
}

client::FileGather* gathering(const Mount& mount, const OpenFile& open, const fuse_file_info& info) {
  return mount.gathers && may_gather(info) ? open.file->gathering() : nullptr;
}

Result<void> send_gathered(fuse_req_t request, client::File& file) {
  if (file.gathering() == nullptr) return {};
  auto sent = run(request, [&](client::Client&) { return send_file(file); });
  if (!sent) this_mount().pages.spoil(file.handle());
  return sent;
}

void send_all_gathered(Mount& mount) {
  if (mount.gathers) mount.process.run([](client::Client& c) { return send_all(c); });
}

bool send_all_gathered(Mount& mount, Duration limit) {
  return mount.process.run([limit](client::Client& c) { return send_all_within(c, limit); });
}

void lose_all_gathered(Mount& mount) {
  mount.process.run([](client::Client& c) { return lose_all(c); });
}

void end_gathering(Mount& mount, Duration limit) {
  if (mount.gathers) mount.process.run([limit](client::Client& c) { return send_last(c, limit); });
}

void name_gathered(Mount& mount) {
  mount.process.run([&mount](client::Client& c) { return name_by(c, mount.names); });
}

void lose_inherited(Mount& mount, const client::GatherMemory& memory) {
  for (const client::GatherMemory::Piece* const piece : memory.inherited()) {
    if (std::atomic_ref(piece->in_use).load(std::memory_order_acquire) == 0) continue;
    mount.process.client().cluster().gathered().note_loss(*piece, Error(Errc::kTimeout, "the mount has ended"));
  }
}

void send_inherited(Mount& mount, client::GatherMemory& memory) {
  mount.process.run([&](client::Client& c) { return send_pieces(mount, c, memory); });
}

}  // namespace spate::fuse
