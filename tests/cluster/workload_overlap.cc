// SPDX-License-Identifier: Apache-2.0
// A write and a truncation of its range at the same time, under a lock. On each datafile, one comes before the other.
#include <fmt/format.h>

#include <algorithm>

#include "tests/cluster/workload.h"
#include "tests/cluster/workload_guard.h"

namespace spate::cluster {
namespace {

constexpr std::byte kWrittenByte{0xA5};
/// About the time from the request for a truncation until it reaches the io servers, ns.
constexpr std::uint64_t kCutTakesNs = 4'000'000;

struct Overlap {
  Extent written;
  std::uint64_t cut = 0;
};

job::Task<void> write_later(job::Executor& executor, Duration delay, client::File& file, Overlap what,
                            Result<void>& out) {
  std::ignore = co_await executor.sleep(delay);
  const Bytes data(what.written.size, kWrittenByte);
  out = co_await file.write(kGuardedAt + what.written.offset, data);
}

job::Task<void> cut_now(client::File& file, Overlap what, Result<void>& out) {
  out = co_await file.truncate(kGuardedAt + what.cut);
}

/// Beyond the truncation, each datafile must have all bytes of the write or none.
bool in_some_order(const Layout& layout, const Overlap& what, const Bytes& found) {
  std::vector<int> seen(layout.slots.size());  // 1: bytes of the write, 2: bytes that are not there
  for (std::uint64_t at = what.cut; at < what.written.offset + what.written.size; ++at) {
    const std::uint64_t slot = (kGuardedAt + at) / layout.strip_bytes % layout.slots.size();
    seen[slot] |= found[at] == kWrittenByte ? 1 : 2;
  }
  return std::none_of(seen.begin(), seen.end(), [](int what_is_there) { return what_is_there == 3; });
}

}  // namespace

job::Task<bool> Workload::write_and_cut_guarded(OpenFilePtr file, LockClaim claim, Bytes& known) {
  const MonoTime begun = process_.executor().now();
  const std::uint64_t crashes = scene_.appends.crashes();
  const std::uint64_t offset = random_.below(2000);
  Overlap what{{offset, kGuardedBytes - offset - random_.below(2000)}, 0};
  what.cut = offset + 1 + random_.below(what.written.size - 1);
  Result<void> written;
  Result<void> cut;
  job::Gate gate(process_.executor());
  job::spawn(gate, write_later(process_.executor(), Duration(random_.below(kCutTakesNs)), *file->file, what, written));
  job::spawn(gate, cut_now(*file->file, what, cut));
  co_await gate.close();
  if (dead()) co_return false;
  scene_.journal.note(fmt::format("c{} writes under lock {}+{}: {}, and cuts at {}: {}", index_, offset,
                                  what.written.size, name(written.code()), what.cut, name(cut.code())));
  if (!written || !cut) co_return co_await overlap_failed(file, claim, written.code(), cut.code(), begun);
  const Bytes found = co_await read_guarded(file);
  if (dead() || found.empty()) co_return false;
  const bool alone =
      scene_.guard_doubts == 0 && scene_.appends.crashes() == crashes && scene_.locks.certain(file->handle, claim);
  if (alone && !in_some_order(file->file->layout(), what, found))
    scene_.fail(fmt::format("client {}: a truncation of file {} fell into a write", index_, file->handle));
  const auto at = [](std::uint64_t where) { return static_cast<std::ptrdiff_t>(where); };
  const std::uint64_t end = offset + what.written.size;
  std::fill(known.begin() + at(offset), known.begin() + at(what.cut), kWrittenByte);
  std::copy(found.begin() + at(what.cut), found.begin() + at(end), known.begin() + at(what.cut));
  std::fill(known.begin() + at(end), known.end(), std::byte{0});
  co_return true;
}

/// Returns false. Each of the two that has failed may still take effect while the lock is held.
job::Task<bool> Workload::overlap_failed(OpenFilePtr file, LockClaim claim, Errc written, Errc cut, MonoTime begun) {
  for (const bool is_cut : {false, true}) {
    const Errc code = is_cut ? cut : written;
    if (code == Errc::kOk) continue;
    if (code == Errc::kStaleHandle && scene_.history.may_be_gone(file->handle)) co_return false;
    if (code == Errc::kLostWrite && scene_.history.may_be_gone(file->handle)) co_return false;
    note_failure("guarded write and cut", code, begun);
    std::ignore = co_await failed_guarded(file, claim, code, is_cut);
    if (dead()) co_return false;
  }
  co_return false;
}

}  // namespace spate::cluster
