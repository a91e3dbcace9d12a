// SPDX-License-Identifier: Apache-2.0
// The workload's reads, writes, truncations and syncs, and its reports to the data model.
#include <fmt/format.h>

#include <algorithm>

#include "client/data/transfer.h"
#include "dist/registry.h"
#include "tests/cluster/workload.h"

namespace spate::cluster {
namespace {

std::uint64_t total(std::span<const Extent> extents) {
  std::uint64_t sum = 0;
  for (const Extent& extent : extents) sum += extent.size;
  return sum;
}

std::string to_string(std::span<const Extent> extents) {
  std::string text = fmt::format("{}+{}", extents.front().offset, extents.front().size);
  if (extents.size() > 1) text += fmt::format(" x{} every {}", extents.size(), extents[1].offset - extents[0].offset);
  return text;
}

datatype::Description describe(std::span<const Extent> extents) {
  if (extents.size() == 1) return *datatype::Description::contiguous(extents[0].offset, extents[0].size);
  const std::array<datatype::Level, 1> levels{{{extents.size(), extents[1].offset - extents[0].offset}}};
  return *datatype::Description::strided(extents[0].offset, extents[0].size, levels);
}

}  // namespace

/// One piece, or several of the same size at equal distances. Mostly small, and where other clients write, too.
std::vector<Extent> Workload::some_extents() {
  const bool large = random_.chance(1, 6);
  const std::uint64_t size = 1 + random_.below(large ? 20'000 : 3000);
  std::uint64_t offset = random_.below(random_.chance(1, 2) ? kFileBytes - size : 6000);
  if (random_.chance(1, 2)) offset = offset / 1024 * 1024;
  if (!random_.chance(1, 4)) return {{offset, size}};
  std::vector<Extent> extents;
  const std::uint64_t block = 1 + size / 4;
  const std::uint64_t stride = block + 1 + random_.below(4096);
  const std::uint64_t count = 2 + random_.below(5);
  for (std::uint64_t i = 0; i < count; ++i) extents.push_back({offset + i * stride, block});
  return extents;
}

job::Task<void> Workload::batch() {
  if (random_.chance(1, 12)) {
    const OpenFilePtr open = some_open(Rights::kWrite);
    if (open != nullptr) co_await ftruncate(open);
    co_return;
  }
  if (random_.chance(1, 12)) {
    const OpenFilePtr open = some_open(Rights::kWrite);
    if (open != nullptr) co_await last_writes(open);
    co_return;
  }
  const std::uint64_t count = random_.chance(1, 3) ? 2 + random_.below(2) : 1;
  job::Gate gate(process_.executor());
  for (std::uint64_t i = 0; i < count; ++i) {
    const OpenFilePtr open = some_open(Rights::kNone);
    if (open != nullptr) job::spawn(gate, data_operation(open));
  }
  co_await gate.close();
}

/// Truncates to a size that no disk can hold. Reports it to the model before and after, since it may end in between.
job::Task<void> Workload::truncate_too_far(std::uint64_t handle) {
  constexpr std::uint64_t kTooFar = std::uint64_t{900} << 40U;
  const MonoTime begun = process_.executor().now();
  client::NamePath where;
  where.start = Handle(handle);
  scene_.data.refused_to_grow(handle);
  auto done = co_await process_.client().truncate(where, kTooFar);
  scene_.data.refused_to_grow(handle);
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} truncate {} too far: {}", index_, handle, name(done.code())));
  // A file that was removed meanwhile may report success, since there is nothing to truncate or to refuse.
  if (done && !scene_.history.may_be_gone(handle))
    scene_.fail(fmt::format("client {}: file {} is said to have 900 TiB", index_, handle));
  if (done || done.code() == Errc::kFileTooBig) co_return;
  if (done.code() == Errc::kStaleHandle && scene_.history.may_be_gone(handle)) co_return;
  note_failure("truncate too far", done.code(), begun);
}

job::Task<void> Workload::last_writes(OpenFilePtr open) {
  job::Gate gate(process_.executor());
  const std::uint64_t count = 2 + random_.below(3);
  for (std::uint64_t i = 0; i < count; ++i) job::spawn(gate, write(open));
  co_await gate.close();
  if (!dead()) co_await close(open);
}

job::Task<void> Workload::data_operation(OpenFilePtr open) {
  const std::uint64_t dice = random_.below(100);
  const bool reads = allows(open->rights, Rights::kRead);
  const bool writes = allows(open->rights, Rights::kWrite);
  if (dice < 42 && writes) {
    co_await write(open);
  } else if (dice < 48 && writes) {
    co_await punch(open);
  } else if (dice < 58 && writes) {
    co_await sync(open);
  } else if (dice < 68) {
    co_await fstat(open);
  } else if (reads) {
    co_await read(open);
  }
}

job::Task<void> Workload::read(OpenFilePtr open) {
  const std::vector<Extent> extents = random_.chance(1, 8) ? std::vector<Extent>{{0, 2 * kFileBytes}} : some_extents();
  const MonoTime begun = process_.executor().now();
  Bytes memory(total(extents));
  const ReadId id = scene_.data.begin_read(open->handle, extents);
  const datatype::Description what = describe(extents);
  const std::array<MutableByteView, 1> views{memory};
  auto got = co_await open->file->read_list(what, views);
  if (dead() || !got) scene_.data.drop_read(id);
  if (dead()) co_return;
  scene_.journal.note(
      fmt::format("c{} read {} {}: {} {}", index_, open->handle, to_string(extents), name(got.code()), got ? *got : 0));
  if (!got) {
    if (got.code() == Errc::kStaleHandle && scene_.history.may_be_gone(open->handle)) co_return;
    note_failure("read", got.code(), begun);
    co_return;
  }
  memory.resize(*got);
  const std::string wrong = scene_.data.end_read(id, memory);
  if (!wrong.empty()) scene_.fail(fmt::format("client {}: read of file {}: {}", index_, open->handle, wrong));
}

job::Task<void> Workload::write_at(OpenFilePtr open, std::vector<Extent> extents) {
  const MonoTime begun = process_.executor().now();
  const WriteId id = scene_.data.begin_write(open->handle, extents);
  writing_.push_back(id);
  Bytes memory(total(extents));
  DataModel::fill(id, extents, memory);
  const datatype::Description what = describe(extents);
  const std::array<ByteView, 1> views{memory};
  auto done = co_await open->file->write_list(what, views);
  if (dead()) co_return;
  std::erase(writing_, id);
  scene_.journal.note(
      fmt::format("c{} write {} {}: {} (write {})", index_, open->handle, to_string(extents), name(done.code()), id));
  if (done) {
    scene_.data.succeeded(id);
    note_unsynced(open->handle, id);
    co_return;
  }
  doubts_.push_back({id, open->handle, false, false, open->file->layout()});
  if (done.code() == Errc::kStaleHandle && scene_.history.may_be_gone(open->handle)) co_return;
  note_failure("write", done.code(), begun);
}

std::optional<Scene::LateWrite> Workload::late_write(MonoTime until) const {
  if (writing_.empty()) return std::nullopt;
  const WriteId id = writing_.front();
  return Scene::LateWrite{scene_.data.file_of(id), scene_.data.extents_of(id), until};
}

job::Task<void> Workload::write_where_late() {
  const Scene::LateWrite late = *scene_.late;
  const OpenFilePtr open = writable(late.handle);
  if (open == nullptr) {
    co_await open_by_handle(late.handle, Rights::kReadWrite, false);
  } else {
    co_await write_at(open, late.extents);
  }
}

/// Punches a hole that does not contain the file's last byte, so the size does not change.
job::Task<void> Workload::punch(OpenFilePtr open) {
  const std::uint64_t certain = scene_.data.size_bounds(open->handle).first;
  std::vector<Extent> extents = some_extents();
  extents.resize(1);
  if (certain < extents[0].offset + extents[0].size + 1) co_return;
  const MonoTime begun = process_.executor().now();
  const WriteId id = scene_.data.begin_punch(open->handle, extents);
  writing_.push_back(id);
  auto done = co_await open->file->punch(extents[0].offset, extents[0].size);
  if (dead()) co_return;
  std::erase(writing_, id);
  scene_.journal.note(
      fmt::format("c{} punch {} {}: {} (write {})", index_, open->handle, to_string(extents), name(done.code()), id));
  if (done) {
    scene_.data.succeeded(id);
    note_unsynced(open->handle, id);
    co_return;
  }
  doubts_.push_back({id, open->handle, false, false, open->file->layout()});
  if (done.code() == Errc::kStaleHandle && scene_.history.may_be_gone(open->handle)) co_return;
  note_failure("punch", done.code(), begun);
}

void Workload::note_unsynced(std::uint64_t handle, WriteId id) { unsynced_[handle].push_back(id); }

job::Task<void> Workload::sync(OpenFilePtr open) {
  const MonoTime begun = process_.executor().now();
  std::vector<WriteId>& unsynced = unsynced_[open->handle];  // of all opens of the file
  const std::vector<WriteId> covered = unsynced;
  auto done = co_await open->file->sync();
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} fsync {}: {}", index_, open->handle, name(done.code())));
  // A loss is reported once, for all writes answered until then, also for those made during the fsync.
  if (done.code() == Errc::kLostWrite) unsynced.clear();
  if (done) {
    std::erase_if(unsynced, [&](WriteId id) { return std::find(covered.begin(), covered.end(), id) != covered.end(); });
  }
  if (done) {
    const std::string wrong = scene_.data.synced(covered);
    if (!wrong.empty()) scene_.fail(fmt::format("client {}: file {}: {}", index_, open->handle, wrong));
    scene_.history.durable(begun);
  } else if (done.code() == Errc::kLostWrite) {
    // A file that was lost in a crash of the meta server's machine may report a loss, too.
    const bool gone = scene_.opens_lost || scene_.history.may_be_gone(open->handle);
    if (!scene_.writes_may_be_lost() && !gone) scene_.fail("fsync says that a write may be lost, but nothing was lost");
  } else if (done.code() != Errc::kStaleHandle || !scene_.history.may_be_gone(open->handle)) {
    note_failure("fsync", done.code(), begun);
  }
}

job::Task<void> Workload::fstat(OpenFilePtr open) {
  const MonoTime begun = process_.executor().now();
  const ReadId id = scene_.data.begin_read(open->handle, {});
  auto got = co_await open->file->stat();
  if (dead() || !got) scene_.data.drop_read(id);
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} fstat {}: {} {}", index_, open->handle, name(got.code()), got ? got->size : 0));
  if (!got) {
    if (got.code() == Errc::kStaleHandle && scene_.history.may_be_gone(open->handle)) co_return;
    note_failure("fstat", got.code(), begun);
    co_return;
  }
  if (got->mtime > scene_.world.wall()) scene_.fail(fmt::format("fstat of file {}: mtime lies ahead", open->handle));
  const std::string wrong = scene_.data.end_stat(id, got->size);
  if (!wrong.empty()) scene_.fail(fmt::format("client {}: fstat of file {}: {}", index_, open->handle, wrong));
}

job::Task<void> Workload::ftruncate(OpenFilePtr open) {
  const std::uint64_t size = random_.below(kFileBytes);
  const MonoTime begun = process_.executor().now();
  const WriteId cut = scene_.data.begin_truncate(open->handle, size);
  auto done = co_await open->file->truncate(size);
  if (dead()) co_return;
  scene_.journal.note(
      fmt::format("c{} ftruncate {} to {}: {} (write {})", index_, open->handle, size, name(done.code()), cut));
  if (done) {
    scene_.data.succeeded(cut);
    note_unsynced(open->handle, cut);
    co_return;
  }
  doubts_.push_back({cut, open->handle, true, false, {}});
  const bool says_gone = done.code() == Errc::kStaleHandle || done.code() == Errc::kLostWrite;
  const bool gone = says_gone && scene_.history.may_be_gone(open->handle);
  if (gone || (done.code() == Errc::kSessionFenced && open_lost(*open))) co_return;
  note_failure("ftruncate", done.code(), begun);
}

/// Sends a request to all io servers of the file. When they have answered, nothing of this client's earlier requests is
/// in flight there any more.
job::Task<bool> Workload::barrier(std::uint64_t handle, const Layout& layout) {
  auto distribution = make_distribution(layout);
  SPATE_CHECK(distribution.has_value());
  client::Cluster& cluster = process_.client().cluster();
  const Capability none;
  const client::TransferTarget target{
      cluster.session(), cluster.attributes(), Handle(handle), layout, **distribution, none};
  std::vector<std::uint32_t> slots;
  for (std::uint32_t i = 0; i < layout.slots.size(); ++i) slots.push_back(i);
  auto states = co_await client::ask_datafiles(target, slots, false, cluster.session().limits());
  co_return states.has_value();
}

job::Task<void> Workload::settle_doubts() {
  const Doubt doubt = doubts_[random_.below(doubts_.size())];
  bool over = false;
  if (!doubt.truncation) {
    over = co_await barrier(doubt.handle, doubt.layout);
  } else if (doubt.request_over) {
    client::NamePath where;
    where.start = Handle(doubt.handle);
    auto opened = co_await process_.client().open(where, wire::kOpenRead);
    over = opened.has_value();
    if (over && !dead()) {
      auto closed = co_await (*opened)->close();
      if (closed.code() == Errc::kLostWrite) unsynced_[doubt.handle].clear();  // it is reported only once
    }
  }
  if (dead()) co_return;
  if (!over) co_return;
  scene_.journal.note(fmt::format("c{} write {} is over", index_, doubt.id));
  scene_.data.over(doubt.id);
  std::erase_if(doubts_, [&doubt](const Doubt& d) { return d.id == doubt.id; });
}

}  // namespace spate::cluster
