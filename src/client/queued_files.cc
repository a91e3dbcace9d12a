// SPDX-License-Identifier: Apache-2.0
#include "client/queued_files.h"

#include <atomic>
#include <utility>

#include "job/deadline.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"

namespace spate::client {

/// One file. It leaves `files_` when it was closed or taken, and its piece was given back.
class QueuedFiles::Waiting final : public GatheringFile {
 public:
  Waiting(QueuedFiles& all, const New& what, GatherMemory::Piece& held)
      : handle(what.handle),
        open_flags(what.open_flags),
        record(what.record),
        piece(&held),
        done(all.cluster_.executor()),
        since_(all.cluster_.executor().now()),
        all_(&all) {}

  job::Task<void> send() override {
    if (all_ != nullptr) co_await all_->send(handle);
  }
  bool unsent() const override { return piece != nullptr; }
  void lose(Error why) override {
    if (all_ == nullptr || piece == nullptr || sending) return;
    all_->cluster_.queued().held().begin_sending(handle);
    all_->fail(*this, why);
    all_->end_piece(*this);
    if (closed) all_->remove(handle);
  }
  std::optional<MonoTime> since() const override {
    return piece == nullptr || sending ? std::nullopt : std::optional(since_);
  }
  bool is_closed() const {
    return closed || (piece != nullptr && std::atomic_ref(piece->later.closed).load(std::memory_order_acquire) != 0);
  }
  void leave() { all_ = nullptr; }

  const Handle handle;
  const std::uint8_t open_flags;
  HandoverState::Open* record;
  GatherMemory::Piece* piece;  // null: everything was sent, or has failed
  std::unique_ptr<File> file;  // null: the creation is not answered, or has failed
  std::optional<Error> failed;
  bool sending = false;
  bool closed = false;
  job::Event done;  // set when `piece` is null

 private:
  const MonoTime since_;
  QueuedFiles* all_;
};

QueuedFiles::QueuedFiles(Cluster& cluster) : cluster_(cluster), ended_(cluster.executor()), gate_(cluster.executor()) {
  cluster_.queued().serve(*this);
  GatheredWrites& gathered = cluster_.gathered();
  HeldChanges::Gathering gathering;
  gathering.memory = gathered.memory();
  gathering.may_begin = [&gathered] { return gathered.room_is_known(); };
  gathering.name_of = [&gathered](Handle file) { return gathered.name_of(file); };
  gathering.half_full = [this] { cluster_.executor().post([this] { cluster_.queued().send_soon(); }); };
  cluster_.queued().held().gather_in(std::move(gathering));
}

QueuedFiles::~QueuedFiles() {
  for (const auto& [handle, file] : files_) file->leave();
}

// Writes.

bool QueuedFiles::keep(const HeldChanges::Write& write) {
  if (write.bytes.size() > FileGather::kMostBytes || !cluster_.queued().write(write)) return false;
  ++cluster_.gathered().counters().writes;
  return true;
}

bool QueuedFiles::keep(const New& file, std::uint64_t offset, ByteView bytes) { return keep({file, offset, bytes}); }

job::Task<Result<bool>> QueuedFiles::write(const New& file, std::uint64_t offset, ByteView bytes) {
  const GatherMemory* const memory = cluster_.gathered().memory();
  if (memory == nullptr) co_return false;
  HeldChanges::Write write{file, offset, bytes};
  const Limits limits = cluster_.session().limits(cluster_.queued().stop_token());
  job::DeadlineScope scope(cluster_.executor(), limits.deadline, limits.stop);
  for (;;) {
    write.made = cluster_.queued().is_new(write.file.handle);
    const bool kept = keep(write);
    adopt();
    if (kept) co_return true;
    const bool waits = !files_.contains(write.file.handle) && offset == 0 && !files_.empty() &&
                       bytes.size() <= FileGather::kMostBytes && memory->used() == memory->pieces();
    if (!waits) co_return false;
    cluster_.queued().send_soon();
    ended_.reset();
    SPATE_CO_TRY(std::ignore, co_await ended_.wait(scope.token()));
  }
}

void QueuedFiles::adopt() {
  for (const HeldChanges::Fresh& fresh : cluster_.queued().held().take_fresh()) {
    const auto file = std::make_shared<Waiting>(*this, fresh.file, *fresh.piece);
    files_[fresh.file.handle] = file;
    cluster_.gathered().join(fresh.file.handle, file);
    cluster_.gathered().begun();
  }
}

// Sending.

void QueuedFiles::begin_sending(const Ptr& file) {
  if (file->sending || file->piece == nullptr) return;
  file->sending = true;
  cluster_.queued().held().begin_sending(file->handle);
  if (!job::spawn(gate_, send_now(file))) file->sending = false;
}

job::Task<void> QueuedFiles::send_now(Ptr file) {
  co_await cluster_.executor().yield();  // the limits of the call that needs this belong to that call
  const auto sent = co_await send_data(*file);
  if (!sent) fail(*file, sent.error());
  if (sent && *sent) tell_sent(*file, **sent);
  end_piece(*file);
  if (file->closed) co_await leave(file);
}

job::Task<Result<QueuedFiles::Sent>> QueuedFiles::send_data(Waiting& file) {
  const Limits limits = cluster_.session().limits(cluster_.queued().stop_token());
  SPATE_CO_TRY(file.file, co_await open_made(file.handle, file.open_flags, limits));
  if (file.record != nullptr) file.file->keep_in(*file.record);
  auto sent = co_await send_through(*file.piece, *file.file);
  co_return sent;
}

/// No await lies between the change that is added and the return.
job::Task<Result<QueuedFiles::Sent>> QueuedFiles::send_through(GatherMemory::Piece& piece, File& file) {
  if (planted(Defect::kCloseBeforeData)) {
    SPATE_CO_TRY(std::ignore, cluster_.queued().add_later(piece, std::nullopt));
    SPATE_CO_TRY(std::ignore, co_await cluster_.executor().sleep(std::chrono::milliseconds(200)));
  }
  co_await file.take_over(piece);
  QueuedChanges& queued = cluster_.queued();
  if (const auto& failed = file.gathering()->failed()) queued.failures().keep(piece.handle, *failed);
  const auto data = co_await file.written();
  for (;;) {
    SPATE_CO_TRY(const bool added, queued.add_later(piece, data));
    if (added) co_return data;
    SPATE_CO_TRY(std::ignore, co_await queued.send_changes(cluster_.session().limits(queued.stop_token())));
  }
}

/// The data and the changes that wait here are lost.
void QueuedFiles::fail(Waiting& file, const Error& error) {
  if (file.file == nullptr) {
    cluster_.gathered().note_loss(*file.piece, error);
  } else if (file.is_closed() || std::atomic_ref(file.piece->later.set).load(std::memory_order_acquire) != 0) {
    SPATE_LOG("client", error, "changes that were answered are lost {} error={}", GatherMemory::text(*file.piece),
              error);
  }
  file.failed = error;
  cluster_.queued().failures().keep(file.handle, error);
  cluster_.queued().held().end(file.handle);
}

/// If all bytes of the file are in the piece.
void QueuedFiles::tell_sent(const Waiting& file, const wire::DataSummary& data) {
  const GatherMemory::Piece& piece = *file.piece;
  if (piece.later.closed == 0 || piece.offset != 0 || piece.size != data.size) return;
  const HeldChanges::Sent sent{data, cluster_.gathered().memory()->bytes(piece)};
  if (auto then = cluster_.queued().held().take_closed(file.handle)) then(&sent);
}

void QueuedFiles::end_piece(Waiting& file) {
  GatherMemory::Piece& piece = *std::exchange(file.piece, nullptr);
  file.closed = file.closed || piece.later.closed != 0;  // nothing more waits
  file.sending = false;
  if (file.file == nullptr) cluster_.gathered().leave(file.handle);
  cluster_.gathered().memory()->give_back(piece);
  file.done.set();
  ended_.set();
}

/// A file that is closed is needed no more. Others stay until they are taken.
job::Task<void> QueuedFiles::leave(Ptr file) {
  if (file->file != nullptr) co_await file->file->leave_open();
  file->file.reset();
  remove(file->handle);
}

void QueuedFiles::remove(Handle handle) {
  const auto found = files_.find(handle);
  const Ptr file = found->second;
  files_.erase(found);
  if (auto then = cluster_.queued().held().take_closed(handle)) then(nullptr);
}

void QueuedFiles::send_closed() {
  adopt();
  if (files_.empty()) return;
  QueuedChanges& queued = cluster_.queued();
  for (const auto& [handle, file] : files_) {
    if (file->is_closed() && !queued.log().has(handle)) begin_sending(file);
  }
  const GatherMemory& memory = *cluster_.gathered().memory();
  if (memory.used() * 2 >= memory.pieces()) queued.send_soon();
}

job::Task<Result<void>> QueuedFiles::send_all(Limits limits) {
  adopt();
  std::vector<Ptr> all;
  for (const auto& [handle, file] : files_) {
    if (file->piece != nullptr) all.push_back(file);
  }
  for (const Ptr& file : all) begin_sending(file);
  job::DeadlineScope scope(cluster_.executor(), limits.deadline, limits.stop);
  for (const Ptr& file : all) {
    SPATE_CO_TRY(std::ignore, co_await file->done.wait(scope.token()));
  }
  co_return Result<void>();
}

job::Task<void> QueuedFiles::send(Handle handle) {
  adopt();
  const auto found = files_.find(handle);
  if (found == files_.end() || found->second->piece == nullptr) co_return;
  const Ptr file = found->second;
  begin_sending(file);
  std::ignore = co_await file->done.wait(cluster_.queued().stop_token());
}

job::Task<QueuedFiles::Opened> QueuedFiles::open(Handle handle, std::uint8_t open_flags) {
  adopt();
  const auto found = files_.find(handle);
  if (found != files_.end() && !found->second->is_closed()) {
    auto taken = co_await take(found->second);
    co_return taken;
  }
  co_await send(handle);  // what an open has left that was closed meanwhile, and which ends by itself
  auto made = co_await open_made(handle, open_flags, cluster_.session().limits());
  co_return made;
}

/// The server's answer to the creation has opened the file. Without the answer it is opened again.
job::Task<QueuedFiles::Opened> QueuedFiles::open_made(Handle handle, std::uint8_t open_flags, Limits limits) {
  Result<wire::OpenReply> reply = co_await cluster_.queued().answer_of(handle, limits);
  if (reply.code() == Errc::kNotFound) {
    wire::OpenRequest request;
    request.where.start = handle;
    request.open_flags = open_flags & (wire::kOpenRead | wire::kOpenWrite | wire::kOpenByUser);
    request.renew = true;
    reply = co_await ask_to_open(cluster_, request, limits);
    // This File does not tell the attribute cache of its writes.
    cluster_.attributes().begin_writing(handle);
    cluster_.attributes().end_writing(handle, std::nullopt);
  }
  if (!reply) co_return std::move(reply).error();
  if (!reply->object.layout) co_return Error(Errc::kProtocol, "the answer to a creation has no layout");
  co_return std::make_unique<File>(cluster_, *std::move(reply), open_flags);
}

job::Task<QueuedFiles::Opened> QueuedFiles::take(Ptr file) {
  begin_sending(file);
  const Limits limits = cluster_.session().limits(cluster_.queued().stop_token());
  job::DeadlineScope scope(cluster_.executor(), limits.deadline, limits.stop);
  SPATE_CO_TRY(std::ignore, co_await file->done.wait(scope.token()));
  files_.erase(file->handle);
  if (file->file == nullptr) co_return file->failed.value_or(Errc::kCancelled);
  co_return std::move(file->file);
}

// An earlier process.

job::Task<Result<void>> QueuedFiles::take_over(GatherMemory::Piece& piece) {
  GatherMemory& memory = *cluster_.gathered().memory();
  if (cluster_.queued().log().closed_before(piece.handle)) {
    memory.give_back(piece);
    co_return Result<void>();
  }
  const auto flags = static_cast<std::uint8_t>(piece.later.open_flags);
  const auto file = std::make_shared<Waiting>(*this, New{piece.handle, flags, nullptr}, piece);
  files_[piece.handle] = file;
  cluster_.queued().held().take_over(piece);
  cluster_.gathered().join(piece.handle, file);
  begin_sending(file);
  SPATE_CO_TRY(std::ignore, co_await file->done.wait(cluster_.queued().stop_token()));
  co_return file->failed ? Result<void>(*file->failed) : Result<void>();
}

job::Task<Result<void>> QueuedFiles::take_over(GatherMemory::Piece& piece, File& file) {
  cluster_.queued().held().take_over(piece);
  const auto sent = co_await send_through(piece, file);
  cluster_.queued().held().end(piece.handle);
  cluster_.gathered().memory()->give_back(piece);
  co_return sent ? Result<void>() : Result<void>(sent.error());
}

job::Task<void> QueuedFiles::stop() { co_await gate_.close(); }

}  // namespace spate::client
