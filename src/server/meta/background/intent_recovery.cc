// SPDX-License-Identifier: Apache-2.0
#include "server/meta/background/intent_recovery.h"

#include <algorithm>

#include "log/log.h"
#include "server/meta/background/io_servers.h"
#include "server/meta/names/sizes.h"
#include "trove/key_order.h"

namespace spate::meta {
namespace {

constexpr Duration kFirstSettleBackoff = std::chrono::milliseconds(50);
constexpr Duration kLongestSettleBackoff = std::chrono::seconds(5);
constexpr std::size_t kIntentsAtOnce = 500;

}  // namespace

/// The store's records about one file's unfinished work.
struct FileIntentRecovery::ToDo {
  std::optional<TruncateIntent> intent;
  std::optional<UnsettledRecord> unsettled;
  std::optional<InodeRecord> inode;
  /// In a damaged store the inode may have the flag without an intent. Requests would wait for the truncation for ever.
  bool flag_alone() const { return inode && inode->truncating && !intent; }
  bool nothing() const { return !intent && !unsettled && !flag_alone(); }
};

FileIntentRecovery::FileIntentRecovery(MetaCore& core)
    : core_(core), gate_(core.executor()), log_limit_(core.clock()) {}

void FileIntentRecovery::start() { look_for_work(); }

void FileIntentRecovery::look_for_work() {
  looking_ = true;
  if (!job::spawn(gate_, find_work())) looking_ = false;
}

job::Task<void> FileIntentRecovery::stop() {
  stopping_.request_stop();
  co_await gate_.close();
}

void FileIntentRecovery::added(Handle handle, TraceId trace) {
  const std::shared_ptr<Work> work = take_up(handle, trace);
  if (work != nullptr) work->added = true;
}

/// The file's task, started if needed; null if too many files have one.
std::shared_ptr<FileIntentRecovery::Work> FileIntentRecovery::take_up(Handle handle, TraceId trace) {
  const auto found = works_.find(handle);
  if (found != works_.end()) {
    found->second->again = true;
    found->second->cut.reset();
    found->second->trace = trace;
    return found->second;
  }
  if (works_.size() < kMaxFiles) return begin(handle, trace);
  left_over_ = true;
  return nullptr;
}

bool FileIntentRecovery::inherited(Handle handle) const {
  const auto found = works_.find(handle);
  return found == works_.end() || !found->second->added;
}

std::shared_ptr<FileIntentRecovery::Work> FileIntentRecovery::begin(Handle handle, TraceId trace) {
  auto work = std::make_shared<Work>(core_.executor());
  work->trace = trace;
  works_.emplace(handle, work);
  if (!job::spawn(gate_, work_on(handle, work))) {
    works_.erase(handle);
    work->outcome = Errc::kCancelled;
    work->cut.set();
    work->ended.set();
  }
  return work;
}

job::Task<Result<void>> FileIntentRecovery::settled(Handle handle, job::StopToken stop) {
  return wait_for(handle, &Work::ended, stop);
}

job::Task<Result<void>> FileIntentRecovery::truncated(Handle handle, job::StopToken stop) {
  return wait_for(handle, &Work::cut, stop);
}

job::Task<Result<void>> FileIntentRecovery::wait_for(Handle handle, job::Event Work::* event, job::StopToken stop) {
  const auto found = works_.find(handle);
  std::shared_ptr<Work> work = found == works_.end() ? nullptr : found->second;
  if (work == nullptr) {  // the work is done, or had no room to begin
    if (works_.size() >= 2 * kMaxFiles) co_return Error::told(Errc::kBusy, "too many truncations wait for io servers");
    work = begin(handle, TraceId());
  }
  const auto waited = co_await ((*work).*event).wait(stop);
  if (waited || ((*work).*event).is_set()) co_return work->outcome;
  const std::string silent = core_.parts().io->unanswered(handle);
  const std::string what = "a truncation of the file is under way";
  if (!silent.empty()) co_return Error(waited.code(), what + " and waits for " + silent);
  co_return Error(waited.code(), work->obstacle.empty() ? what : work->obstacle);
}

job::Task<Result<void>> FileIntentRecovery::truncated_for(ClientId client, std::uint32_t below_epoch,
                                                          job::StopToken stop) {
  trove::KeyRange range = all_of(KeyKind::kTruncate);
  range.limit = kIntentsAtOnce;
  range.mode = trove::ReadMode::kSnapshot;
  for (bool more = true; more;) {
    job::Transaction transaction = core_.store().begin();
    const auto read = co_await transaction.range(range);
    if (read.status != Errc::kOk) co_return Error(read.status, "truncations in the meta store");
    for (const trove::KeyValue& entry : read.entries) {
      const auto handle = parse_id_key(entry.key);
      const auto intent = decode_record<TruncateIntent>(entry.value);
      if (!handle || !intent) continue;  // a damaged record: nobody can carry it out
      if (intent->asker.client != client || intent->asker.epoch >= below_epoch) continue;
      SPATE_CO_TRY(std::ignore, co_await truncated(Handle(*handle), stop));
    }
    more = read.more;
    if (!more) break;
    range.begin = trove::key_after(read.entries.back().key);
  }
  co_return {};
}

job::Task<void> FileIntentRecovery::work_on(Handle handle, std::shared_ptr<Work> work) {
  Duration backoff = kFirstSettleBackoff;
  for (;;) {
    work->again = false;
    const auto done = co_await step(handle, *work);
    if (done && !*done && !work->again) break;
    if (stopping_.stopped()) {
      work->outcome = Errc::kCancelled;
      break;
    }
    if (done) {
      work->refused_since.reset();
      continue;
    }
    note_failure(handle, work, done.error());
    std::ignore = co_await core_.executor().sleep(backoff, stopping_);
    backoff = std::min(backoff * 2, kLongestSettleBackoff);
  }
  works_.erase(handle);
  work->cut.set();
  work->ended.set();
  if (left_over_ && !looking_ && works_.size() < kMaxFiles / 2) look_for_work();
}

/// Requests that wait get an error if the refusal is permanent. Later requests wait for the next attempt.
void FileIntentRecovery::note_failure(Handle handle, std::shared_ptr<Work>& work, const Error& error) {
  work->obstacle = error.message();
  if (const auto more = log_limit_.admit()) {
    SPATE_LOG("server/meta", warn, "truncation or size not finished, trying on handle={} error={}{}", handle.value,
              work->obstacle, *more);
  }
  if (!is_refusal(error.code())) {
    work->refused_since.reset();
    return;
  }
  if (!work->refused_since) work->refused_since = core_.executor().now();
  if (!refused_for_good(*work, error.code())) return;
  auto fresh = std::make_shared<Work>(core_.executor());
  fresh->trace = work->trace;
  fresh->added = work->added;
  fresh->obstacle = work->obstacle;
  fresh->refused_since = work->refused_since;
  works_[handle] = fresh;
  work->outcome = error;
  work->cut.set();
  work->ended.set();
  work = std::move(fresh);
}

bool FileIntentRecovery::refused_for_good(const Work& work, Errc code) const {
  if (code == Errc::kFileTooBig) return true;
  return is_refusal(code) && work.refused_since && core_.executor().now() - *work.refused_since >= kRefusedFor;
}

job::Task<void> FileIntentRecovery::find_work() {
  Duration backoff = kFirstSettleBackoff;
  while (!stopping_.stopped()) {
    left_over_ = false;
    auto found = co_await find_work_of(KeyKind::kTruncate);
    if (found) found = co_await find_work_of(KeyKind::kUnsettled);
    if (found) break;
    if (const auto more = log_limit_.admit()) {
      SPATE_LOG("server/meta", error, "unfinished truncations not read from the store, trying on error={}{}",
                found.error().message(), *more);
    }
    std::ignore = co_await core_.executor().sleep(backoff, stopping_);
    backoff = std::min(backoff * 2, kLongestSettleBackoff);
  }
  looking_ = false;
}

job::Task<Result<void>> FileIntentRecovery::find_work_of(KeyKind kind) {
  trove::KeyRange range = all_of(kind);
  range.limit = kIntentsAtOnce;
  range.mode = trove::ReadMode::kSnapshot;
  for (bool more = true; more && !stopping_.stopped();) {
    job::Transaction transaction = core_.store().begin();
    const auto read = co_await transaction.range(range);
    if (read.status != Errc::kOk) co_return read.status;
    for (const trove::KeyValue& entry : read.entries) {
      const auto handle = parse_id_key(entry.key);
      if (handle) std::ignore = take_up(Handle(*handle), TraceId());
    }
    more = read.more && !left_over_;  // if there was no room: load again when there is some
    if (!read.more) break;
    range.begin = trove::key_after(read.entries.back().key);
  }
  co_return {};
}

job::Task<Result<FileIntentRecovery::ToDo>> FileIntentRecovery::look(Handle handle) {
  constexpr auto kMode = trove::ReadMode::kSnapshot;
  job::Transaction store = core_.store().begin();
  ToDo todo;
  SPATE_CO_TRY(todo.intent, co_await read_record<TruncateIntent>(store, truncate_key(handle), kMode));
  SPATE_CO_TRY(todo.unsettled, co_await read_record<UnsettledRecord>(store, unsettled_key(handle), kMode));
  SPATE_CO_TRY(todo.inode, co_await read_record<InodeRecord>(store, inode_key(handle), kMode));
  co_return todo;
}

/// Takes one step. True: something was done, and there may be more to do.
job::Task<Result<bool>> FileIntentRecovery::step(Handle handle, Work& work) {
  SPATE_CO_TRY(ToDo todo, co_await look(handle));
  if (!todo.intent && !todo.flag_alone() && !work.again) work.cut.set();
  if (todo.nothing()) co_return false;
  const bool wants_size = todo.inode && !todo.inode->attributes.size_known && todo.inode->write_opens == 0;
  if (todo.inode && todo.intent) {
    todo.intent->trace = work.trace;
    SPATE_CO_TRY(std::ignore, co_await finish_truncation(handle, *std::move(todo.intent), work));
  } else if (wants_size && !todo.flag_alone()) {
    SPATE_CO_TRY(std::ignore, co_await settle(*std::move(todo.inode)));
  } else {
    InternalChange change = [this, handle](Operation& operation) { return drop_records(operation, handle); };
    SPATE_CO_TRY(std::ignore, co_await core_.run_internal(std::move(change), trove::Durability::kProcess, stopping_));
  }
  co_return true;
}

job::Task<Result<void>> FileIntentRecovery::finish_truncation(Handle handle, TruncateIntent intent, const Work& work) {
  const std::uint64_t generation = intent.generation;
  // Do not cut bytes for an intent that a crash of this machine could take back.
  SPATE_CO_TRY(std::ignore, co_await core_.sync());
  const auto data = co_await core_.parts().io->truncate(handle, std::move(intent), stopping_);
  if (!data && !refused_for_good(work, data.code())) co_return data.error();
  if (!data) {
    SPATE_LOG("server/meta", warn, "truncation given up, it was refused handle={} error={}", handle.value,
              data.error().message());
  }
  InternalChange change = [this, handle, generation, &data](Operation& operation) {
    return data ? store_truncation(operation, handle, generation, *data)
                : give_up_truncation(operation, handle, generation, data.error());
  };
  auto stored = co_await core_.run_internal(std::move(change), trove::Durability::kProcess, stopping_);
  co_return stored;
}

job::Task<Result<void>> FileIntentRecovery::store_truncation(Operation& operation, Handle handle,
                                                             std::uint64_t generation, const wire::DataSummary& data) {
  SPATE_CO_TRY(const auto intent, co_await operation.get<TruncateIntent>(truncate_key(handle)));
  if (!intent || intent->generation != generation) co_return {};
  operation.erase(truncate_key(handle));
  SPATE_CO_TRY(auto inode, co_await operation.get<InodeRecord>(inode_key(handle)));
  if (!inode) co_return {};
  inode->truncating = false;
  Attributes& a = inode->attributes;
  if (a.size_known) {  // nobody has had the file open for writing since: mtime and size were set together with the
                       // intent
    a.size = intent->size;
    a.allocated_bytes = data.allocated_bytes;
    a.change_sum = data.change_sum;
  }
  operation.put(*inode);
  co_return {};
}

job::Task<Result<void>> FileIntentRecovery::settle(InodeRecord inode) {
  const Handle handle = inode.handle();
  const std::uint64_t generation = inode.write_generation;
  SPATE_CO_TRY(const wire::DataSummary data,
               co_await core_.parts().io->stat(handle, *std::move(inode.layout), stopping_));
  InternalChange change = [this, handle, generation, &data](Operation& operation) {
    return store_size(operation, handle, generation, data);
  };
  auto stored = co_await core_.run_internal(std::move(change), trove::Durability::kProcess, stopping_);
  co_return stored;
}

job::Task<Result<void>> FileIntentRecovery::store_size(Operation& operation, Handle handle,
                                                       std::uint64_t write_generation, const wire::DataSummary& data) {
  SPATE_CO_TRY(auto inode, co_await operation.get<InodeRecord>(inode_key(handle)));
  if (!inode || inode->attributes.size_known || inode->truncating) co_return {};
  // The file was opened for writing after the datafiles were asked, so their answer may be out of date.
  if (inode->write_opens > 0 || inode->write_generation != write_generation) co_return {};
  store_summary(*inode, data);
  operation.put(*inode);
  operation.erase(unsettled_key(handle));
  co_return {};
}

job::Task<Result<void>> FileIntentRecovery::drop_records(Operation& operation, Handle handle) {
  SPATE_CO_TRY(auto inode, co_await operation.get<InodeRecord>(inode_key(handle)));
  SPATE_CO_TRY(const auto intent, co_await operation.get<TruncateIntent>(truncate_key(handle)));
  if (!inode) operation.erase(truncate_key(handle));
  if (inode && inode->truncating && !intent) {
    SPATE_LOG("server/meta", error, "a truncation without its intent, forgotten handle={}", handle.value);
    inode->truncating = false;
    operation.put(*inode);
  }
  const bool wants_size = inode && !inode->attributes.size_known && inode->write_opens == 0;
  if (!wants_size) operation.erase(unsettled_key(handle));
  co_return {};
}

}  // namespace spate::meta
