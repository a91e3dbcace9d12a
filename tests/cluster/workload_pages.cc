// SPDX-License-Identifier: Apache-2.0
// The workload's pages: what a mount's kernel keeps of a file from one open to the next.
#include <fmt/format.h>

#include <algorithm>

#include "tests/cluster/workload.h"

namespace spate::cluster {
namespace {

constexpr std::uint64_t kWhole = 96 * 1024;  // larger than any file

ServerId some_server_of(const Layout& layout, Random& random) {
  return server_of(layout.slots[random.below(layout.slots.size())].targets.front());
}

}  // namespace

/// Opens a file once or twice as a program does, reads it, perhaps writes it, and closes it. Reads come from the pages
/// if an open has kept them.
job::Task<void> Workload::use_pages() {
  const Node* node = scene_.history.likely().find(some_object(true));
  if (node == nullptr || node->handle == 0 || !scene_.data.knows(node->handle)) co_return;
  const std::uint64_t handle = node->handle;
  const bool writes = random_.chance(1, 2);
  const std::size_t opens = writes && random_.chance(1, 2) ? 2 : 1;
  std::vector<std::shared_ptr<client::File>> files;
  while (files.size() < opens) {
    std::shared_ptr<client::File> file = co_await open_with_pages(handle, writes);
    if (dead()) co_return;
    if (file == nullptr) break;
    files.push_back(std::move(file));
  }
  // Of several writers, the last one to close asks the io servers, for at most a second, about the others' writes. By
  // its own writes it should have learnt of all datafiles.
  const bool asks_in_vain = files.size() > 1 && random_.chance(1, 2);
  for (const std::shared_ptr<client::File>& file : files) {
    if (writes) co_await write_through_pages(file, asks_in_vain ? kWhole / 3 : 3000);
    if (dead()) co_return;
  }
  if (random_.chance(1, 2)) std::ranges::reverse(files);
  if (asks_in_vain)
    scene_.part(some_server_of(files.front()->layout(), random_).value, node_, std::chrono::milliseconds(1500));
  for (const std::shared_ptr<client::File>& file : files) {
    co_await close_with_pages(file);
    if (dead()) co_return;
  }
}

/// Null if the open fails or this client dies.
job::Task<std::shared_ptr<client::File>> Workload::open_with_pages(std::uint64_t handle, bool writes) {
  const MonoTime begun = process_.executor().now();
  const std::vector<Extent> whole{{0, kWhole}};
  const ReadId id = scene_.data.begin_read(handle, whole);
  client::NamePath where;
  where.start = Handle(handle);
  const auto flags = static_cast<std::uint8_t>(wire::kOpenRead | (writes ? unsigned{wire::kOpenWrite} : 0U));
  auto opened = co_await process_.client().open(where, flags);
  if (dead() || !opened) scene_.data.drop_read(id);
  if (dead()) co_return nullptr;
  if (!opened) {
    if (opened.code() != Errc::kStaleHandle || !scene_.history.may_be_gone(handle))
      note_failure("open", opened.code(), begun);
    co_return nullptr;
  }
  std::shared_ptr<client::File> file = *std::move(opened);
  co_await check_cached_pages(file, id);
  if (dead()) co_return nullptr;
  if (!pages_.contains(handle)) co_await fill_pages(file);
  co_return file;
}

job::Task<void> Workload::close_with_pages(std::shared_ptr<client::File> file) {
  const std::uint64_t handle = file->handle().value;
  const MonoTime begun = process_.executor().now();
  auto closed = co_await kept_.close(*file);
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} close {} with pages: {}", index_, handle, name(closed.code())));
  if (closed.code() == Errc::kLostWrite) unsynced_[handle].clear();  // reported; later syncs need not report it
  if (closed || closed.code() == Errc::kLostWrite || closed.code() == Errc::kSessionFenced) co_return;
  const bool gone = scene_.history.may_be_gone(handle);
  if (closed.code() != Errc::kStaleHandle || !gone) note_failure("close", closed.code(), begun);
}

/// The kept pages must have been in the file at some time since read `id` began. After a crash, pages may be newer than
/// the file, since a disk may have lost unsynced writes.
job::Task<void> Workload::check_cached_pages(std::shared_ptr<client::File> file, ReadId id) {
  const std::uint64_t handle = file->handle().value;
  bool keeps = co_await kept_.opened(*file);
  const auto found = pages_.find(handle);
  if (scene_.world.settings().plant == Plant::kKeptPages)
    keeps = found != pages_.end() && found->second.data.size() == file->attributes().size;
  scene_.journal.note(fmt::format("c{} open {} with pages: {}", index_, handle, keeps ? "kept" : "dropped"));
  if (dead() || !keeps || found == pages_.end() || found->second.crashes != scene_.appends.crashes()) {
    scene_.data.drop_read(id);
  } else {
    ++scene_.pages_kept;
    const std::string wrong = scene_.data.end_read(id, found->second.data);
    if (!wrong.empty()) scene_.fail(fmt::format("client {}: kept pages of file {}: {}", index_, handle, wrong));
  }
  if (dead() || keeps) co_return;
  pages_.erase(handle);
  kept_.dropped(file->attributes());
}

job::Task<void> Workload::fill_pages(std::shared_ptr<client::File> file) {
  const std::uint64_t handle = file->handle().value;
  Pages pages{Bytes(kWhole), scene_.appends.crashes()};
  auto got = co_await file->read(0, pages.data);
  if (dead() || !got) co_return;  // other reads check such failures
  pages.data.resize(*got);
  pages_[handle] = std::move(pages);
}

job::Task<void> Workload::write_through_pages(std::shared_ptr<client::File> file, std::uint64_t most) {
  const std::uint64_t handle = file->handle().value;
  const std::uint64_t offset = random_.below(random_.chance(1, 2) ? kWhole / 2 : 6000);
  const std::vector<Extent> extents{{offset, 1 + random_.below(most)}};
  const WriteId id = scene_.data.begin_write(handle, extents);
  writing_.push_back(id);
  Bytes memory(extents.front().size);
  DataModel::fill(id, extents, memory);
  auto done = co_await file->write(offset, memory);
  if (dead()) co_return;
  std::erase(writing_, id);
  scene_.journal.note(fmt::format("c{} write {} {}+{} through pages: {} (write {})", index_, handle, offset,
                                  memory.size(), name(done.code()), id));
  if (!done) {
    doubts_.push_back({id, handle, false, false, file->layout()});
    kept_.spoil(Handle(handle));
    co_return;
  }
  scene_.data.succeeded(id);
  const auto found = pages_.find(handle);
  if (found == pages_.end()) co_return;
  Bytes& data = found->second.data;
  if (data.size() < offset + memory.size()) data.resize(offset + memory.size());
  std::copy(memory.begin(), memory.end(), data.begin() + static_cast<std::ptrdiff_t>(offset));
}

}  // namespace spate::cluster
