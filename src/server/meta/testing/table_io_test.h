// SPDX-License-Identifier: Apache-2.0
// For tests: io servers as a table in memory.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/expect.h"
#include "job/event.h"
#include "server/meta/core/parts.h"

namespace spate::meta {

/// Io servers as one table of files. A test can make calls fail, wait, or have only half of their effect.
class TableIoServers final : public IoServers {
 public:
  explicit TableIoServers(job::Executor& executor) : released_(executor) { released_.set(); }

  struct File {
    wire::DataSummary data;
    std::uint64_t generation = 0;  // of the last truncation
    bool removed = false;
    WallTime tombstone_until;
  };

  // Calls of clients.

  /// Writes up to `end`. Fails if the client's epoch is fenced or the file is gone.
  ::testing::AssertionResult write(Handle handle, ClientId client, std::uint32_t epoch, std::uint64_t end,
                                   WallTime now) {
    File& file = files[handle];
    if (file.removed) return ::testing::AssertionFailure() << "the io servers have removed file " << handle.value;
    if (epoch < fences[client]) {
      return ::testing::AssertionFailure() << "the io servers have fenced epochs below " << fences[client]
                                           << " of client " << client.value << ", whose epoch is " << epoch;
    }
    file.data.size = std::max(file.data.size, end);
    file.data.allocated_bytes = file.data.size;
    file.data.mtime = now;
    ++file.data.change_sum;
    return ::testing::AssertionSuccess() << "the io servers have written file " << handle.value;
  }

  // Calls of the meta server.

  job::Task<Result<wire::DataSummary>> stat(Handle handle, Layout, job::StopToken stop) override {
    const wire::DataSummary now = files[handle].data;  // a late answer has the state of this moment
    SPATE_CO_TRY(std::ignore, co_await begin("stat " + std::to_string(handle.value), stop));
    co_return now;
  }
  job::Task<Result<wire::DataSummary>> truncate(Handle handle, TruncateIntent intent, job::StopToken stop) override {
    const std::string call = "truncate " + std::to_string(handle.value);
    SPATE_CO_TRY(std::ignore, co_await begin(call, stop));
    File& file = files[handle];
    if (!file.removed && file.generation < intent.generation) {
      file.generation = intent.generation;
      file.data.size = file.data.allocated_bytes = intent.size;
      file.data.mtime = intent.when;
      ++file.data.change_sum;
      ++cuts;
    }
    SPATE_CO_TRY(std::ignore, outcome_of(lose_reply, call));
    co_return file.data;
  }
  job::Task<RemoveOutcome> remove(std::vector<DeadFile> dead, WallTime until, job::StopToken stop) override {
    RemoveOutcome outcome;
    outcome.removed.assign(dead.size(), true);
    const std::string call = "remove " + std::to_string(dead.size());
    const auto reached = co_await begin(call, stop);
    outcome.failure = reached;
    largest_removal = std::max(largest_removal, dead.size());
    for (std::size_t i = 0; i < dead.size(); ++i) {
      for (const Slot& slot : dead[i].layout.slots) {
        if (reached && !down.contains(slot.targets.front())) continue;
        outcome.removed[i] = false;
        outcome.out_of_reach.push_back(slot.targets.front());
        if (outcome.failure) outcome.failure = Errc::kUnreachable;
      }
      if (refused.contains(dead[i].handle)) {
        outcome.removed[i] = false;
        if (outcome.failure) outcome.failure = Errc::kIoError;
      }
      if (!outcome.removed[i]) continue;
      File& file = files[dead[i].handle];
      file = File();
      file.removed = true;
      file.tombstone_until = until;
    }
    const auto lost = outcome_of(lose_reply, call);
    if (outcome.failure && !lost) {
      outcome.removed.assign(dead.size(), false);
      outcome.failure = lost;
    }
    co_return outcome;
  }
  job::Task<Result<void>> fence(ClientId client, std::uint32_t lowest_epoch, job::StopToken stop) override {
    const std::string call = "fence " + std::to_string(client.value);
    SPATE_CO_TRY(std::ignore, co_await begin(call, stop));
    fences[client] = std::max(fences[client], lowest_epoch);
    co_return outcome_of(lose_reply, call);
  }

  void server_added(const ServerEntry&) override {}

  std::string unanswered(Handle) const override { return silent; }

  /// Calls wait from now on, until release() or their stop.
  void hold() { released_.reset(); }
  void release() { released_.set(); }
  /// How many calls began with this word.
  std::size_t calls(std::string_view word) const {
    std::size_t n = 0;
    for (const std::string& call : log) n += call.starts_with(word) ? 1U : 0U;
    return n;
  }

  std::map<Handle, File> files;
  std::map<ClientId, std::uint32_t> fences;
  std::set<TargetId> down;   // targets that cannot be reached by removals
  std::set<Handle> refused;  // files that cannot be removed, although their targets are reached
  /// Called before and after the effect of a call. kOk lets it through.
  std::function<Errc(std::string_view call)> fail;
  std::function<Errc(std::string_view call)> lose_reply;
  std::vector<std::string> log;
  std::string silent;    // the answer of unanswered()
  std::size_t cuts = 0;  // truncations that had an effect
  std::size_t largest_removal = 0;

 private:
  job::Task<Result<void>> begin(std::string call, job::StopToken stop) {
    log.push_back(call);
    SPATE_CO_TRY(std::ignore, co_await released_.wait(stop));
    co_return outcome_of(fail, call);
  }
  static Result<void> outcome_of(const std::function<Errc(std::string_view)>& hook, std::string_view call) {
    const Errc failure = hook ? hook(call) : Errc::kOk;
    if (failure != Errc::kOk) return Error(failure, "server 3 (tcp://io3:7400)");
    return {};
  }
  job::Event released_;
};

/// For EXPECT_TRUE and EXPECT_FALSE, which then show the file.
inline ::testing::AssertionResult is_removed(const TableIoServers::File& file) {
  return ::testing::AssertionResult(file.removed)
         << (file.removed ? "its datafiles are removed" : "its datafiles are there") << ", of " << file.data.size
         << " bytes";
}

}  // namespace spate::meta
