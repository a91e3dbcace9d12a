// SPDX-License-Identifier: Apache-2.0
// The workload's opens and closes of files, and its reports to the data model.
#include <algorithm>

#include "client/data/transfer.h"
#include "dist/registry.h"
#include "tests/cluster/workload.h"

namespace spate::cluster {
namespace {

constexpr std::size_t kMostOpen = 6;

}  // namespace

bool Workload::open_lost(const OpenFile& open) {
  return scene_.opens_lost || open.epoch != process_.client().session().identity().epoch;
}

/// The use of a file is decided by its first open.
void Workload::know(OpenFile& open, Use params) {
  const bool fresh =
      !scene_.data.knows(open.handle) && !scene_.appends.knows(open.handle) && !scene_.scratch.contains(open.handle);
  if (scene_.appends.knows(open.handle) || (fresh && params == Use::kLog)) {
    open.use = Use::kLog;
    scene_.appends.add(open.handle);
  } else if (scene_.scratch.contains(open.handle) || (fresh && params == Use::kScratch)) {
    open.use = Use::kScratch;
    scene_.scratch.insert(open.handle);
  } else {
    scene_.data.know(open.handle, open.file->layout());
  }
}

Workload::OpenFilePtr Workload::some_open(Rights rights) {
  std::vector<OpenFilePtr> fitting;
  for (const OpenFilePtr& open : open_) {
    if (open->use == Use::kData && allows(open->rights, rights)) fitting.push_back(open);
  }
  if (fitting.empty()) return nullptr;
  return fitting[random_.below(fitting.size())];
}

Workload::OpenFilePtr Workload::writable(std::uint64_t handle) {
  const auto fits = [handle](const OpenFilePtr& open) {
    return open->handle == handle && open->use == Use::kData && allows(open->rights, Rights::kWrite);
  };
  const auto found = std::find_if(open_.begin(), open_.end(), fits);
  return found == open_.end() ? nullptr : *found;
}

job::Task<void> Workload::open_something(bool truncate) {
  const Node* node = scene_.history.likely().find(some_object(true));
  if (node == nullptr || node->handle == 0) co_return;
  co_await open_by_handle(node->handle, static_cast<Rights>(1 + random_.below(3)), truncate);
}

job::Task<void> Workload::open_by_handle(std::uint64_t handle, Rights rights, bool truncate) {
  if (open_.size() >= kMostOpen) {
    const OpenFilePtr oldest = open_.front();
    co_await close(oldest);
    co_return;
  }
  const MonoTime begun = process_.executor().now();
  const bool cuts = truncate && scene_.data.knows(handle);
  client::NamePath where;
  where.start = Handle(handle);
  const auto flags =
      static_cast<std::uint8_t>(static_cast<unsigned>(rights) | (cuts ? unsigned{wire::kOpenTruncate} : 0U));
  const WriteId cut = cuts ? scene_.data.begin_truncate(handle, 0) : 0;
  auto opened = co_await process_.client().open(where, flags);
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} open {}{}: {}", index_, handle, cuts ? " cut" : "", name(opened.code())));
  if (!opened) {
    if (cuts) doubts_.push_back({cut, handle, true, false, {}});
    if (opened.code() == Errc::kStaleHandle && scene_.history.may_be_gone(handle)) co_return;
    note_failure("open", opened.code(), begun);
    co_return;
  }
  if (cuts) scene_.data.succeeded(cut);
  const OpenFilePtr open = std::make_shared<OpenFile>();
  open->handle = handle;
  open->rights = rights;
  open->file = *std::move(opened);
  open->epoch = open->file->session_epoch();
  know(*open, Use::kData);
  open_.push_back(open);
}

job::Task<void> Workload::truncate_by_handle() {
  const Node* node = scene_.history.likely().find(some_object(true));
  if (node == nullptr || node->handle == 0 || !scene_.data.knows(node->handle)) co_return;
  const std::uint64_t handle = node->handle;
  if (random_.chance(1, 6)) {
    co_await truncate_too_far(handle);
    co_return;
  }
  const std::uint64_t size = random_.below(kFileBytes);
  const MonoTime begun = process_.executor().now();
  client::NamePath where;
  where.start = Handle(handle);
  const WriteId cut = scene_.data.begin_truncate(handle, size);
  auto done = co_await process_.client().truncate(where, size);
  if (dead()) co_return;
  scene_.journal.note(
      fmt::format("c{} truncate {} to {}: {} (write {})", index_, handle, size, name(done.code()), cut));
  if (done) {
    scene_.data.succeeded(cut);
    co_return;
  }
  doubts_.push_back({cut, handle, true, false, {}});
  if (done.code() == Errc::kStaleHandle && scene_.history.may_be_gone(handle)) co_return;
  note_failure("truncate", done.code(), begun);
}

job::Task<void> Workload::close(OpenFilePtr open) {
  const MonoTime begun = process_.executor().now();
  std::erase(open_, open);
  auto done = co_await open->file->close();
  if (dead()) co_return;
  scene_.journal.note(fmt::format("c{} close {}: {}", index_, open->handle, name(done.code())));
  if (done) co_return;
  const Errc code = done.code();
  if (code == Errc::kLostWrite) {
    unsynced_[open->handle].clear();  // reported; later syncs need not report it
    if (!scene_.writes_may_be_lost() && !scene_.history.may_be_gone(open->handle))
      scene_.fail("close says that a write may be lost, but nothing was lost");
    co_return;
  }
  const bool gone = code == Errc::kStaleHandle && scene_.history.may_be_gone(open->handle);
  if (gone || (code == Errc::kSessionFenced && open_lost(*open))) co_return;
  note_failure("close", code, begun);
}

job::Task<void> Workload::close_all() {
  const std::vector<OpenFilePtr> all = open_;
  job::Gate gate(process_.executor());
  for (const OpenFilePtr& open : all) job::spawn(gate, close(open));
  co_await gate.close();
}

}  // namespace spate::cluster
