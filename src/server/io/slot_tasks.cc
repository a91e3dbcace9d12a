// SPDX-License-Identifier: Apache-2.0
#include "server/io/slot_tasks.h"

#include "job/semaphore.h"

namespace spate::io {
namespace {

/// The blocks that the tasks of one request may examine in one turn. Guess: less than 10 ms.
constexpr std::uint64_t kBlocksPerTurn = 262144;
/// How many tasks with many blocks run at a time. A task examines at most 131072 blocks in one turn: 65536 when it
/// makes a datatype::SlotCursor, and as many in its first batch.
constexpr std::size_t kLongWalksAtOnce = 4;

job::Task<Result<void>> run_in_turn(job::Executor& executor, job::Semaphore& turns, job::Task<Result<void>> task) {
  SPATE_CO_TRY(const auto turn, co_await turns.acquire(1));
  co_await executor.yield();
  auto result = co_await std::move(task);
  co_return result;
}

}  // namespace

job::Task<Result<void>> run_slots(job::Executor& executor, const datatype::Description& what,
                                  std::vector<job::Task<Result<void>>> tasks, job::StopSource& siblings) {
  job::Semaphore turns(executor, kLongWalksAtOnce);
  if (what.blocks() > kBlocksPerTurn / tasks.size()) {
    for (auto& task : tasks) task = run_in_turn(executor, turns, std::move(task));
  }
  auto result = co_await job::run_all(executor, std::move(tasks), siblings);
  co_return result;
}

}  // namespace spate::io
