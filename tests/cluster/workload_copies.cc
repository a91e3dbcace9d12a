// SPDX-License-Identifier: Apache-2.0
// The workload's copies inside the file system, and its requests for the location of data.
#include <fmt/format.h>

#include "tests/cluster/workload.h"

namespace spate::cluster {
namespace {

constexpr std::uint64_t kMostCopied = 64 * 1024;

}  // namespace

job::Task<void> Workload::map_data(OpenFilePtr open) {
  const MonoTime begun = process_.executor().now();
  const ReadId id = scene_.data.begin_read(open->handle, {});
  auto map = co_await open->file->data_map(0, 64);
  if (dead() || !map) scene_.data.drop_read(id);
  if (dead()) co_return;
  scene_.journal.note(
      fmt::format("c{} map of {}: {} {}", index_, open->handle, name(map.code()), map ? map->file_size() : 0));
  if (!map) {
    if (map.code() == Errc::kStaleHandle && scene_.history.may_be_gone(open->handle)) co_return;
    note_failure("map of data", map.code(), begun);
    co_return;
  }
  const std::string wrong = scene_.data.end_stat(id, map->file_size());
  if (!wrong.empty()) scene_.fail(fmt::format("client {}: map of file {}: {}", index_, open->handle, wrong));
}

/// Copies from a file to the client's place in a scratch file, and from there to another place such that the servers
/// copy alone. Then reads the copy: the file must have held these bytes at some time since the beginning.
job::Task<void> Workload::copy(OpenFilePtr open) {
  const OpenFilePtr scratch = scratch_file();
  if (scratch == nullptr) {
    co_await make_scratch_file();
    co_return;
  }
  const MonoTime begun = process_.executor().now();
  const std::uint64_t width = scratch->file->layout().strip_bytes * scratch->file->layout().slots.size();
  const std::uint64_t own = static_cast<std::uint64_t>(index_) * 64 * width;
  const std::uint64_t offset = random_.below(kMostCopied / 4);
  const std::vector<Extent> what{{offset, 1 + random_.below(kMostCopied / 2)}};
  const std::uint64_t crashes = scene_.appends.crashes();
  const ReadId id = scene_.data.begin_read(open->handle, what);
  Bytes memory;
  auto copied = co_await scratch->file->copy_from(*open->file, {offset, own, what[0].size});
  if (copied && !dead() && *copied > 0) {
    copied = co_await scratch->file->copy_from(*scratch->file, {own, own + 32 * width, *copied});
    memory.resize(copied ? *copied : 0);
    if (copied && !dead()) copied = co_await scratch->file->read(own + 32 * width, memory);
  }
  const bool told = !dead() && copied && crashes == scene_.appends.crashes();
  if (!told) scene_.data.drop_read(id);
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} copies {} {}+{}: {} {}", index_, open->handle, offset, what[0].size,
                                  name(copied.code()), copied ? *copied : 0));
  if (!copied) {
    const bool gone = scene_.history.may_be_gone(open->handle) || scene_.history.may_be_gone(scratch->handle);
    if (copied.code() != Errc::kStaleHandle || !gone) note_failure("copy", copied.code(), begun);
  } else if (told) {
    const std::string wrong = scene_.data.end_read(id, memory);
    if (!wrong.empty()) scene_.fail(fmt::format("client {}: copy of file {}: {}", index_, open->handle, wrong));
  }
}

}  // namespace spate::cluster
