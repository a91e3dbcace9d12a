// SPDX-License-Identifier: Apache-2.0
// File::append.
#include <numeric>

#include "client/file_operation.h"

namespace spate::client {
namespace {

/// How often an append begins again in a new epoch of the session.
constexpr int kMostTries = 5;

}  // namespace

job::Task<Result<std::uint64_t>> File::append(std::span<const ByteView> memory, job::StopToken stop) {
  if (!allows(rights_, Rights::kWrite)) co_return Errc::kBadDescriptor;
  if (appended_ == nullptr) appended_ = cluster_.appends().join(handle_);
  const Appends::AppendedPtr file = appended_;
  auto turn = co_await file->turn.acquire(1, stop);
  if (!turn) co_return std::move(turn).error();
  auto end = co_await append_now(file, memory, stop);
  co_await cluster_.appends().done(file);
  co_return end;
}

/// With the turn of this client. The file may be closed meanwhile: `file` is its own.
job::Task<Result<std::uint64_t>> File::append_now(Appends::AppendedPtr file, std::span<const ByteView> memory,
                                                    job::StopToken stop) {
  Result<std::uint64_t> end = Errc::kSessionFenced;
  for (int tries = 0; tries < kMostTries && end.code() == Errc::kSessionFenced; ++tries) {
    auto right = co_await cluster_.appends().take(file, stop);
    if (!right) co_return std::move(right).error();
    const rpc::Identity& identity = cluster_.identity();
    if (capability_.session_epoch != identity.epoch || capability_.client != identity.client) {
      auto renewed = co_await renew(cluster_.limits(stop));
      if (!renewed) co_return std::move(renewed).error();
      continue;  // which may have begun another epoch
    }
    end = co_await append_once(*file, memory, stop);
  }
  co_return end;
}

/// With the right to append, in the epoch of the capability.
job::Task<Result<std::uint64_t>> File::append_once(Appends::Appended& file, std::span<const ByteView> memory,
                                                     job::StopToken stop) {
  const std::uint32_t epoch = capability_.session_epoch;
  const std::uint64_t size = std::accumulate(memory.begin(), memory.end(), std::uint64_t{0},
                                             [](std::uint64_t sum, ByteView view) { return sum + view.size(); });
  std::vector<std::uint32_t> slots(layout_.slots.size());
  std::iota(slots.begin(), slots.end(), 0U);
  // An answer also says that nothing of an older connection is under way any more (docs/consistency.md, "Resends").
  auto states = co_await ask_datafiles(target(), slots, false, cluster_.limits(stop));
  if (!states) co_return std::move(states).error();
  const std::uint64_t end = summarize(*distribution_, *states).size;
  file.unsettled = false;
  auto what = datatype::Description::contiguous(end, size);
  if (!what) co_return std::move(what).error();
  Operation operation{Kind::kWrite, *what, {}, memory, stop, epoch};
  auto written = co_await run(operation);
  if (written) co_return end;
  // Part of it may still take effect, and must not meet what others put there.
  file.unsettled = true;
  auto settled = co_await ask_datafiles(target(), slots, false, cluster_.limits(stop));
  if (settled) file.unsettled = false;
  co_return std::move(written).error();
}

}  // namespace spate::client
