// SPDX-License-Identifier: Apache-2.0
// Counter: gives out numbers (handles, client ids), each only once, also after crashes.
#pragma once

#include <optional>
#include <string>

#include "job/event.h"
#include "job/gate.h"
#include "job/storage.h"
#include "server/meta/store/records.h"

namespace spate::meta {

struct CounterOptions {
  std::string name;             // the name of its record (global_key)
  std::uint64_t first = 1;      // the first number of a new store
  std::uint64_t batch = 65536;  // numbers set aside by one transaction, >= 4
};

/// Reserves numbers in batches. A batch is durable against a crash of the machine before its first number is given out,
/// because a client may have sent io servers a handle whose creation was lost. The numbers left of a batch at stop()
/// are never used. One executor. Life cycle: start() -> take()... -> stop().
class Counter {
 public:
  Counter(CounterOptions options, job::KeyvalContext& store);
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  job::Task<Result<void>> start();
  /// The first of `count` numbers in a row, at most half a batch. If a batch has too few left, those are never used.
  /// Waits only if the store was slow to reserve the next batch.
  job::Task<Result<std::uint64_t>> take(job::StopToken stop, std::uint64_t count = 1);
  /// From now on takes numbers beyond `used` only. The numbers that are left out are recorded. Call it at any time.
  /// False: the next number would have been beyond it anyway.
  bool skip_to_after(std::uint64_t used);
  job::Task<void> stop();

 private:
  job::Task<void> refill_in_background();
  job::Task<Result<void>> refill();
  job::Task<Result<void>> reserve();
  void note_skipped(CounterRecord& record, std::uint64_t begin);

  CounterOptions options_;
  job::KeyvalContext& store_;
  std::uint64_t next_ = 0;
  std::uint64_t end_ = 0;         // of the batch in use
  std::uint64_t spare_next_ = 0;  // the batch after it, once set aside
  std::uint64_t spare_end_ = 0;
  std::uint64_t least_ = 0;                    // no number below it is taken
  std::optional<std::uint64_t> skipped_from_;  // numbers from here on, below least_, are not recorded as skipped yet
  bool refilling_ = false;
  Errc refill_status_ = Errc::kOk;
  job::Event refilled_;
  job::Gate gate_;
};

}  // namespace spate::meta
