// SPDX-License-Identifier: Apache-2.0
#include "tools/bench_work.h"

#include "job/gate.h"

namespace spate::tools {
namespace {

/// State that the lanes of one part share.
struct Moving {
  client::File& file;
  const DataPlan& plan;
  const std::atomic<bool>& stop;
  SeededRandom random;
  std::uint64_t next;
  std::uint64_t left;  // random reads
  std::uint64_t moved = 0;
  Result<void> first;

  bool over() const {
    return stop.load(std::memory_order_relaxed) || !first ||
           (plan.work == DataWork::kRandomRead ? left == 0 : next >= plan.end);
  }
  std::uint64_t take() {
    if (plan.work != DataWork::kRandomRead) return std::exchange(next, next + plan.request_bytes);
    --left;
    return plan.begin + random.below((plan.end - plan.begin) / plan.request_bytes) * plan.request_bytes;
  }
};

job::Task<void> move_lane(Moving& moving, MutableByteView buffer) {
  while (!moving.over()) {
    const std::uint64_t offset = moving.take();
    const auto piece =
        buffer.first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), moving.plan.end - offset)));
    Result<void> done;
    if (moving.plan.work == DataWork::kWrite) {
      done = co_await moving.file.write(offset, piece);
    } else {
      auto got = co_await moving.file.read(offset, piece);
      if (!got) {
        done = std::move(got).error();
      } else if (*got != piece.size()) {
        done = Error::told(Errc::kIoError, "the file is shorter than it was written");
      }
    }
    if (done) moving.moved += piece.size();
    if (!done && moving.first) moving.first = std::move(done);
  }
}

struct Naming {
  client::Client& client;
  const NamesPlan& plan;
  const std::atomic<bool>& stop;
  std::uint64_t next = 0;
  std::uint64_t done = 0;
  Result<void> first;
};

job::Task<Result<void>> one_name(const Naming& naming, std::uint64_t number) {
  wire::CreateRequest request;
  request.where.start = naming.plan.folder;
  request.where.path = std::to_string(number);
  if (naming.plan.work == NamesWork::kStat) {
    SPATE_CO_TRY(std::ignore, co_await naming.client.stat(request.where));
    co_return Result<void>();
  }
  if (naming.plan.work == NamesWork::kUnlink) {
    auto gone = co_await naming.client.unlink(request.where);
    co_return gone;
  }
  request.attributes.mode = 0600;
  SPATE_CO_TRY(std::ignore, co_await naming.client.make_node(request));
  co_return Result<void>();
}

job::Task<void> name_lane(Naming& naming) {
  while (naming.next < naming.plan.files && naming.first && !naming.stop.load(std::memory_order_relaxed)) {
    auto done = co_await one_name(naming, naming.next++);
    if (done) ++naming.done;
    if (!done && naming.first) naming.first = std::move(done);
  }
}

}  // namespace

job::Task<Result<std::uint64_t>> move_data(client::File& file, DataPlan plan, const std::atomic<bool>& stop) {
  Moving moving{file, plan, stop, SeededRandom(plan.begin + plan.requests), plan.begin, plan.requests, 0, {}};
  Buffer memory(plan.depth * static_cast<std::size_t>(plan.request_bytes), Buffer::kPageAlignment);
  std::memset(memory.data(), 0x5a, memory.size());
  job::Gate gate(file.executor());
  for (std::size_t i = 0; i < plan.depth; ++i) {
    const auto size = static_cast<std::size_t>(plan.request_bytes);
    job::spawn(gate, move_lane(moving, memory.view().subspan(i * size, size)));
  }
  co_await gate.close();
  if (!moving.first) co_return std::move(moving.first).error();
  co_return moving.moved;
}

job::Task<Result<std::uint64_t>> work_on_names(client::Client& client, NamesPlan plan, const std::atomic<bool>& stop) {
  Naming naming{client, plan, stop, 0, 0, {}};
  job::Gate gate(client.cluster().executor());
  for (std::size_t i = 0; i < plan.tasks; ++i) job::spawn(gate, name_lane(naming));
  co_await gate.close();
  if (!naming.first) co_return std::move(naming.first).error();
  co_return naming.done;
}

}  // namespace spate::tools
