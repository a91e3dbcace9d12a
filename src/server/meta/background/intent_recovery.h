// SPDX-License-Identifier: Apache-2.0
// FileIntentRecovery: finishes truncations and asks the datafiles for sizes, in the background (docs/consistency.md,
// "Size and times").
#pragma once

#include <map>
#include <memory>
#include <string>

#include "job/event.h"
#include "job/gate.h"
#include "log/rate_limit.h"
#include "server/meta/core/core.h"

namespace spate::meta {

/// The work is recorded in the store (truncate intents, unsettled records), so it begins again after any crash. Each
/// file has one task, which tries until it succeeds. At most kMaxFiles have one, twice as many if requests wait; the
/// others wait in the store. One executor; pinned. Life cycle: construct -> start() -> stop() awaited -> destroyed.
class FileIntentRecovery final : public IntentRecovery {
 public:
  explicit FileIntentRecovery(MetaCore& core);

  /// Begins with the work that an earlier process has left.
  void start();
  job::Task<void> stop();

  void added(Handle handle, TraceId trace) override;
  /// Fails with kBusy when too many files wait already, and with kCancelled when this server stops.
  job::Task<Result<void>> settled(Handle handle, job::StopToken stop) override;
  job::Task<Result<void>> truncated(Handle handle, job::StopToken stop) override;
  job::Task<Result<void>> truncated_for(ClientId client, std::uint32_t below_epoch, job::StopToken stop) override;
  bool inherited(Handle handle) const override;
  /// Files being worked on.
  std::size_t working() const { return works_.size(); }

  static constexpr std::size_t kMaxFiles = 16384;
  /// If an io server answers a truncation with errors for this long, intent recovery gives the truncation up. It gives
  /// up at once when the error says that the file would be too large.
  static constexpr Duration kRefusedFor = std::chrono::seconds(10);

 private:
  struct Work {
    explicit Work(job::Executor& executor) : cut(executor), ended(executor) {}
    job::Event cut;    // set while no truncation is under way
    job::Event ended;  // set when nothing is left to do
    Result<void> outcome;
    bool again = false;    // work was added after the task read the store
    bool added = false;    // by a request to this process, not found at the start
    TraceId trace;         // of the request that added last
    std::string obstacle;  // the reason why it is not done yet
    std::optional<MonoTime> refused_since;
  };
  struct ToDo;

  std::shared_ptr<Work> begin(Handle handle, TraceId trace);
  std::shared_ptr<Work> take_up(Handle handle, TraceId trace);
  job::Task<Result<void>> wait_for(Handle handle, job::Event Work::* event, job::StopToken stop);
  void note_failure(Handle handle, std::shared_ptr<Work>& work, const Error& error);
  bool refused_for_good(const Work& work, Errc code) const;
  job::Task<void> work_on(Handle handle, std::shared_ptr<Work> work);
  void look_for_work();
  job::Task<void> find_work();
  job::Task<Result<void>> find_work_of(KeyKind kind);
  job::Task<Result<ToDo>> look(Handle handle);
  job::Task<Result<bool>> step(Handle handle, Work& work);
  job::Task<Result<void>> finish_truncation(Handle handle, TruncateIntent intent, const Work& work);
  job::Task<Result<void>> settle(InodeRecord inode);
  job::Task<Result<void>> store_truncation(Operation& operation, Handle handle, std::uint64_t generation,
                                           const wire::DataSummary& data);
  job::Task<Result<void>> store_size(Operation& operation, Handle handle, std::uint64_t write_generation,
                                     const wire::DataSummary& data);
  job::Task<Result<void>> drop_records(Operation& operation, Handle handle);

  MetaCore& core_;
  std::map<Handle, std::shared_ptr<Work>> works_;  // shared with requests that wait
  bool left_over_ = false;                         // some files had no room here: they are only in the store
  bool looking_ = false;
  job::StopSource stopping_;
  job::Gate gate_;
  log::RateLimit log_limit_;
};

}  // namespace spate::meta
