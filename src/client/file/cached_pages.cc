// SPDX-License-Identifier: Apache-2.0
#include "client/file/cached_pages.h"

#include <atomic>
#include <bit>

#include "base/check.h"

namespace spate::client {
namespace {

/// Multiplicative hashing puts successive handles far apart. Source: Knuth, TAOCP vol. 3, sec. 6.4.
constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;

}  // namespace

CachedPages::CachedPages(std::span<PageRecord> memory) : memory_(memory) {
  SPATE_CHECK(std::has_single_bit(memory.size()));
}

CachedPages::PageRecord& CachedPages::place(Handle handle) const {
  return memory_[(handle.value * kFactor >> 32U) & (memory_.size() - 1)];
}

std::optional<CachedPages::PageRecord> CachedPages::find(Handle handle) const {
  const PageRecord& kept = place(handle);
  return kept.handle == handle.value ? std::optional(kept) : std::nullopt;
}

/// The process may be killed between any two stores. So the handle is set only while the rest belongs to it.
void CachedPages::put(Handle file, std::uint64_t size, std::uint64_t change_sum) {
  PageRecord& kept = place(file);
  std::atomic_ref handle(kept.handle);
  handle.store(0, std::memory_order_seq_cst);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  kept.size = size;
  kept.change_sum = change_sum;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  handle.store(file.value, std::memory_order_seq_cst);
}

void CachedPages::erase(Handle handle) {
  PageRecord& kept = place(handle);
  if (kept.handle == handle.value) std::atomic_ref(kept.handle).store(0, std::memory_order_seq_cst);
}

/// Files that were opened in different epochs of the session may have been written by others in between.
void CachedPages::begin_writing(const File& file) {
  Writing& writing = writing_[file.handle()];
  if (writing.files.empty()) {
    writing = {};
    writing.epoch = file.session_epoch();
  }
  if (writing.epoch != file.session_epoch()) writing.spoiled = true;
  writing.files.insert(&file);
  ++writing.opens;
}

job::Task<bool> CachedPages::opened(File& file) {
  std::optional<PageRecord> before;
  const bool writes = allows(file.rights(), Rights::kWrite);
  {
    const std::lock_guard lock(mutex_);
    before = find(file.handle());
    if (writes) {
      erase(file.handle());
      begin_writing(file);
    }
  }
  if (!before) co_return false;
  const Attributes& now = file.attributes();
  bool same = before->size == now.size && before->change_sum == now.change_sum;
  if (same && !now.size_known) {
    const auto sum = co_await file.change_sum_now();
    same = sum.has_value() && *sum == before->change_sum;
  }
  if (!same && !writes) {
    const std::lock_guard lock(mutex_);
    erase(file.handle());
  }
  co_return same;
}

bool CachedPages::opened_for_reading(const Attributes& now) {
  const std::lock_guard lock(mutex_);
  const auto before = find(now.handle);
  const bool same = before && before->size == now.size && before->change_sum == now.change_sum;
  if (before && !same) erase(now.handle);
  return same;
}

/// Stores nothing while the file is open for writing, because the attributes of the open do not describe it then.
void CachedPages::dropped(const Attributes& as_opened) {
  const std::lock_guard lock(mutex_);
  if (as_opened.size_known && !writing_.contains(as_opened.handle))
    put(as_opened.handle, as_opened.size, as_opened.change_sum);
}

void CachedPages::end_writing(const File& file, const Result<Attributes>& closed) {
  const std::lock_guard lock(mutex_);
  const auto found = writing_.find(file.handle());
  if (found == writing_.end() || found->second.last != &file) return;
  // The meta server knows the size from a close only if no other client had the file open for writing in the meantime.
  const bool agree = closed && closed->size_known && !found->second.spoiled;
  writing_.erase(found);
  if (agree) put(closed->handle, closed->size, closed->change_sum);
}

bool CachedPages::followed(const File& file) {
  const std::lock_guard lock(mutex_);
  const auto found = writing_.find(file.handle());
  return found != writing_.end() && found->second.files.contains(&file) && !found->second.spoiled;
}

/// The opens that this counts have overlapped at the meta server, too: each one was answered before it came into
/// `files`, and none is closed there before it has left `files`.
std::uint32_t CachedPages::stop_writing(const File& file) {
  const std::lock_guard lock(mutex_);
  const auto found = writing_.find(file.handle());
  if (found == writing_.end() || found->second.files.erase(&file) == 0) return 1;
  Writing& writing = found->second;
  if (file.may_change_later()) writing.spoiled = true;
  if (!writing.files.empty()) return 0;
  writing.last = &file;
  return writing.spoiled && writing.opens > 1 ? 0 : writing.opens;
}

job::Task<Result<Attributes>> CachedPages::close(File& file, UniqueFunction<void()> on_ended) {
  CloseOptions options;
  options.learn_data = followed(file);
  options.last_of_writers = [this, &file] { return stop_writing(file); };
  options.unheard = true;  // the program's close(2) has returned
  auto closed = co_await file.close(std::move(options), std::move(on_ended));
  end_writing(file, closed);
  co_return closed;
}

void CachedPages::closed(Handle handle, const wire::DataSummary& data) {
  const std::lock_guard lock(mutex_);
  if (!writing_.contains(handle)) put(handle, data.size, data.change_sum);
}

void CachedPages::spoil(Handle handle) {
  const std::lock_guard lock(mutex_);
  erase(handle);
  const auto found = writing_.find(handle);
  if (found != writing_.end()) found->second.spoiled = true;
}

}  // namespace spate::client
