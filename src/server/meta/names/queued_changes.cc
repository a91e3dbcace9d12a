// SPDX-License-Identifier: Apache-2.0
// queued_changes: what a session has changed by itself in directories delegated to it. Each change is made by its
// operation's own function, once.
#include <any>
#include <memory>

#include "log/log.h"
#include "model/defect.h"
#include "server/meta/names/batched.h"
#include "server/meta/names/operations.h"
#include "server/meta/names/queue_sessions.h"

namespace spate::meta {
namespace {

constexpr std::uint8_t kQueueableOpen =
    wire::kOpenRead | wire::kOpenWrite | wire::kOpenExclusive | wire::kOpenDistribution;

Outcome<wire::CreateReply> create_queued(Operation& operation, const wire::CreateRequest& request) {
  const bool queueable = request.type == FileType::kRegular && (request.open_flags & ~kQueueableOpen) == 0 &&
                         (request.open_flags & wire::kOpenExclusive) != 0;
  if (!queueable) co_return Error::told(Errc::kNotSupported, "only the exclusive creation of a regular file is queued");
  auto made = co_await create(operation, request);
  co_return made;
}

Outcome<wire::OpenReply> open_queued(Operation& operation, const wire::OpenRequest& request) {
  const bool queueable = request.where.path.empty() && request.open_flags == wire::kOpenRead && !request.renew;
  if (!queueable) co_return Error::told(Errc::kNotSupported, "only the open of a handle for reading is queued");
  auto opened = co_await open(operation, request);
  co_return opened;
}

/// `op` is queueable.
Body queueable_body_of(wire::Op op) {
  switch (op) {
    case wire::Op::kCreate: return &encoded_body<wire::CreateRequest, &create_queued>;
    case wire::Op::kMkdir: return &encoded_body<wire::MkdirRequest, &mkdir>;
    case wire::Op::kSymlink: return &encoded_body<wire::SymlinkRequest, &symlink>;
    case wire::Op::kSetattr: return &encoded_body<wire::SetattrRequest, &setattr>;
    case wire::Op::kUnlink: return &encoded_body<wire::UnlinkRequest, &unlink>;
    case wire::Op::kRmdir: return &encoded_body<wire::RmdirRequest, &rmdir>;
    case wire::Op::kOpen: return &encoded_body<wire::OpenRequest, &open_queued>;
    default: break;
  }
  constexpr Outcome<wire::CloseReply> (*kClose)(Operation&, const wire::CloseRequest&) = &close;
  return &encoded_body<wire::CloseRequest, kClose>;
}

bool makes_object(wire::Op op) { return op == wire::Op::kCreate || op == wire::Op::kMkdir || op == wire::Op::kSymlink; }

/// Room for the name that the change touches, and for an answer without a body.
std::size_t room_of(const wire::QueuedChange& change) { return 4 * kFieldsRoom + change.body.size(); }

std::size_t least_room(const wire::QueuedChangesRequest& request) {
  std::size_t bytes = 0;
  for (const wire::QueuedChange& change : request.changes) bytes += room_of(change);
  return bytes;
}

Result<void> check_form(const rpc::Call& call, const wire::QueuedChangesRequest& request) {
  std::size_t bytes = 0;
  for (const wire::QueuedChange& change : request.changes) bytes += change.body.size();
  const std::size_t count = request.changes.size();
  if (count == 0 || count > wire::kMostBatched || bytes > wire::kMostBatchedBytes)
    return Error::told(Errc::kInvalidArgument, "queued_changes: 1 to 256 changes and at most 256 KiB");
  if (request.first == 0 || request.first > UINT64_MAX - count)
    return Error::told(Errc::kInvalidArgument, "queued_changes: a number out of range");
  if (kReplyHeaderRoom + least_room(request) > call.header.reply_room)
    return Error::told(Errc::kMessageTooBig, "queued_changes: the reply to so many changes needs more room");
  return {};
}

/// The request as a whole fails with these, and its sender sends it again.
bool is_transient(Errc code) {
  switch (code) {
    case Errc::kCancelled:
    case Errc::kTimeout:
    case Errc::kBusy:
    case Errc::kTryAgain:
    case Errc::kNoMemory:
    case Errc::kUnreachable:
    case Errc::kConnectionLost:
    case Errc::kSessionUnknown:
    case Errc::kSessionFenced:
    case Errc::kConflict: return true;
    default: return false;
  }
}

/// State of one request between its runs. The turn ends before its semaphore.
struct QueueTurn {
  QueueTable::QueuePtr queue;
  job::Semaphore::Units turn;
  bool has_turn = false;
  LeftOut left_out;
};

job::Task<Result<void>> wait_for_turn(std::shared_ptr<QueueTurn> run, job::StopToken stop) {
  SPATE_CO_TRY(run->turn, co_await run->queue->turn.acquire(1, stop));
  run->has_turn = true;
  co_return {};
}

/// The next run sees everything that was committed before the turn.
Errc take_turn(Operation& operation, const std::shared_ptr<QueueTurn>& run) {
  const rpc::Call& call = operation.call();
  run->queue = operation.core().queues().of(call.header.client);
  return operation.deferred().run_again_after([run, stop = call.stop] { return wait_for_turn(run, stop); });
}

/// The session's record, if it may use it in this epoch.
job::Task<Result<QueueRecord>> record_of(Operation& operation) {
  const wire::RequestHeader& header = operation.call().header;
  SPATE_CO_TRY(const auto found, co_await operation.get<QueueRecord>(queue_key(header.client)));
  if (!found || found->epoch != header.session_epoch)
    co_return Error::told(Errc::kInvalidArgument, "queued_changes: no handles were reserved in this epoch");
  co_return *found;
}

/// A crash of the machine may have taken the latest changes, and their numbers with them. After a restart, therefore,
/// the first numbers that a client sends count.
Result<void> check_gap(const QueueTable::Queue& queue, const QueueRecord& record, std::uint64_t first) {
  if (first <= record.last + 1) return {};
  if (queue.known) return Error::told(Errc::kProtocol, "queued_changes: a gap in the numbers");
  SPATE_LOG("server/meta", warn, "queued changes were lost in a crash last={} first={}", record.last, first);
  return {};
}

/// Uses up the handle of the change, even if the change fails then. The error is the answer to the change.
Result<void> take_handle(const MetaOptions& options, const wire::QueuedChange& change, QueueRecord& record) {
  if (!wire::queueable(change.op)) return Error(Errc::kNotSupported, "this kind of change cannot be queued");
  if (!makes_object(change.op)) {
    if (!change.handle) return {};
    return Error::told(Errc::kInvalidArgument, "queued_changes: a handle for a change that makes nothing");
  }
  const std::uint64_t number = number_of(change.handle);
  const bool ours = change.handle == Handle(std::uint64_t{options.shard} << 48U | number);
  if (ours && record.take(number)) return {};
  return Error::told(Errc::kInvalidArgument, "queued_changes: a handle that was not reserved, or was used before");
}

/// The changes of a request, one after another.
class QueuedRun {
 public:
  QueuedRun(Operation& operation, const wire::QueuedChangesRequest& request, QueueRecord& record, LeftOut& left_out)
      : operation_(operation),
        request_(request),
        record_(record),
        left_out_(left_out),
        reserved_(least_room(request)) {}

  /// Fails as a whole, with kConflict too. Otherwise yields an answer for each change.
  job::Task<Result<std::vector<wire::BatchedAnswer>>> make() {
    for (std::size_t i = 0; i < request_.changes.size(); ++i) {
      reserved_ -= room_of(request_.changes[i]);
      if (request_.first + i <= record_.last) {
        answers_.push_back({Errc::kOk, {}, {}});
        continue;
      }
      SPATE_CO_TRY(std::ignore, co_await make_next(i));
    }
    co_return std::move(answers_);
  }

 private:
  job::Task<Result<void>> make_next(std::size_t i) {
    const wire::QueuedChange& change = request_.changes[i];
    const auto handle = take_handle(operation_.core().options(), change, record_);
    const auto left_out = left_out_.find(i);
    if (left_out != left_out_.end()) {
      add(left_out->second);
      co_return {};
    }
    if (!handle) {
      add(answer_of(handle.error()));
      co_return {};
    }
    const std::uint64_t keys = operation_.changes().keys();
    CountedObjects counted(operation_);
    auto result = co_await run(change);
    if (!result && is_transient(result.code())) co_return std::move(result).error();
    if (!result) counted.drop();
    const bool undo = !result && operation_.changes().keys() != keys;
    if (auto told = operation_.deferred().take_answer()) result = *std::move(told);
    add(answer_of(std::move(result)));
    if (!undo) co_return {};
    left_out_[i] = answers_.back();
    co_return run_again(operation_);
  }

  job::Task<Result<Bytes>> run(const wire::QueuedChange& change) {
    operation_.made_at_client().next(change.at, change.handle);
    auto result = co_await queueable_body_of(change.op)(operation_, change.body);
    operation_.made_at_client().next(std::nullopt, Handle());
    co_return result;
  }

  /// A change is made even if its answer has no room.
  void add(wire::BatchedAnswer answer) {
    answers_.push_back(std::move(answer));
    const std::size_t size = size_of(answers_, operation_.changes().touched()) + reserved_;
    if (size <= operation_.call().header.reply_room) return;
    answers_.back().context.clear();
    answers_.back().body.clear();
  }

  Operation& operation_;
  const wire::QueuedChangesRequest& request_;
  QueueRecord& record_;
  LeftOut& left_out_;
  std::size_t reserved_;  // for the changes to come
  std::vector<wire::BatchedAnswer> answers_;
};

}  // namespace

Outcome<wire::QueuedChangesReply> queued_changes(Operation& operation, const wire::QueuedChangesRequest& request) {
  SPATE_CO_TRY(std::ignore, check_may_queue(operation));
  SPATE_CO_TRY(std::ignore, check_form(operation.call(), request));
  if (!operation.kept().has_value()) operation.kept() = std::make_shared<QueueTurn>();
  const auto run = std::any_cast<std::shared_ptr<QueueTurn>>(operation.kept());
  if (!run->has_turn) co_return take_turn(operation, run);
  SPATE_CO_TRY(QueueRecord record, co_await record_of(operation));
  SPATE_CO_TRY(std::ignore, check_gap(*run->queue, record, request.first));
  const std::uint64_t last = request.first + request.changes.size() - 1;
  QueuedRun changes(operation, request, record, run->left_out);
  wire::QueuedChangesReply reply;
  SPATE_CO_TRY(reply.answers, co_await changes.make());
  if (last <= record.last) co_return reply;
  if (!planted(Defect::kQueuedTwice)) record.last = last;
  operation.put(queue_key(operation.call().header.client), record);
  operation.deferred().when_committed([queue = run->queue] { queue->known = true; });
  co_return reply;
}

}  // namespace spate::meta
