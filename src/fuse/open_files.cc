// SPDX-License-Identifier: Apache-2.0
#include "fuse/open_files.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace spate::fuse {

OpenFiles::OpenFiles(client::HandoverState& handover) : handover_(handover), last_(handover.first_number()) {
  handover_.opens().for_each([this](client::HandoverState::Open& record) {
    auto file = std::make_shared<OpenFile>();
    file->handle = record.handle;
    file->direct = record.direct;
    file->record = &record;
    if (record.released || record.closing) {
      left_.push_back(std::move(file));
      return;
    }
    files_.emplace(record.number, std::move(file));
    count(record.handle, record.number);
    inherited_.emplace(record.request_id, record.number);
  });
}

std::uint64_t OpenFiles::add(New opened) {
  auto file = std::make_shared<OpenFile>();
  file->queued = opened.file == nullptr && !opened.known_later;
  file->known_later = opened.known_later;
  file->moves_atime = opened.moves_atime;
  file->flags = opened.open_flags;
  file->handle = opened.file == nullptr ? opened.queued : opened.file->handle();
  file->direct = opened.direct;
  file->file = std::move(opened.file);
  const std::lock_guard lock(mutex_);
  remove_same_request(opened.request_id);
  client::HandoverState::Open* const record = handover_.opens().take();
  if (record != nullptr) {
    record->number = ++last_;
    record->request_id = opened.request_id;
    record->handle = file->handle;
    record->open_flags = opened.open_flags;
    record->direct = opened.direct;
    if (file->file != nullptr) file->file->keep_in(*record);
    if (file->known_later) record->reads_count = file->moves_atime;
    handover_.opens().publish(*record);
    file->record = record;
  } else {
    ++last_;
  }
  count(file->handle, last_);
  files_.emplace(last_, std::move(file));
  return last_;
}

void OpenFiles::count(Handle handle, std::uint64_t number) {
  OpensOfFile& opens = by_handle_[handle];
  ++opens.count;
  opens.newest = std::max(opens.newest, number);
}

void OpenFiles::uncount(Handle handle) {
  const auto found = by_handle_.find(handle);
  if (--found->second.count == 0) by_handle_.erase(found);
}

bool OpenFiles::is_alone(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto file = files_.find(number);
  if (file == files_.end()) return false;
  const OpensOfFile& opens = by_handle_.at(file->second->handle);
  return opens.count == 1 && opens.newest == number;
}

/// The previous process opened the file and was killed before it could answer. The kernel has repeated the request, and
/// knows the file by the new number.
void OpenFiles::remove_same_request(std::uint64_t request_id) {
  const auto before = inherited_.find(request_id);
  if (before == inherited_.end()) return;
  const auto found = files_.find(before->second);
  inherited_.erase(before);
  if (found == files_.end()) return;
  handover_.opens().remove(*found->second->record);
  uncount(found->second->handle);
  files_.erase(found);
}

std::shared_ptr<OpenFile> OpenFiles::find(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(number);
  return found == files_.end() ? nullptr : found->second;
}

std::shared_ptr<OpenFile> OpenFiles::remove(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(number);
  if (found == files_.end()) return nullptr;
  auto file = std::move(found->second);
  files_.erase(found);
  uncount(file->handle);
  return file;
}

void OpenFiles::forget(OpenFile& file) {
  const std::lock_guard lock(mutex_);
  if (file.record != nullptr) handover_.opens().remove(*file.record);
  file.record = nullptr;
}

void OpenFiles::forget_reads(Handle handle) {
  std::vector<std::shared_ptr<OpenFile>> opens;
  {
    const std::lock_guard lock(mutex_);
    if (!by_handle_.contains(handle)) return;
    for (const auto& [number, file] : files_) {
      if (file->handle == handle) opens.push_back(file);
    }
  }
  for (const auto& open : opens) open->forget_read();
}

void OpenFiles::released(OpenFile& file) {
  const std::lock_guard lock(mutex_);
  if (file.record != nullptr) std::atomic_ref(file.record->released).store(true, std::memory_order_release);
}

std::vector<std::shared_ptr<OpenFile>> OpenFiles::take_left() {
  const std::lock_guard lock(mutex_);
  return std::exchange(left_, {});
}

std::shared_ptr<OpenFile> OpenFiles::inherited_writer(Handle handle) const {
  const auto writes = [handle](const OpenFile& file) {
    return file.handle == handle && file.record != nullptr && (file.record->open_flags & wire::kOpenWrite) != 0;
  };
  const std::lock_guard lock(mutex_);
  for (const auto& [number, file] : files_) {
    if (writes(*file)) return file;
  }
  for (const auto& file : left_) {
    if (writes(*file)) return file;
  }
  return nullptr;
}

void OpenFiles::forget_closed(OpenFile& file) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(left_, [&](const auto& one) { return one.get() == &file; });
    for (auto at = files_.begin(); at != files_.end(); ++at) {
      if (at->second.get() != &file) continue;
      uncount(file.handle);
      files_.erase(at);
      break;
    }
  }
  forget(file);
}

std::size_t OpenFiles::size() const {
  const std::lock_guard lock(mutex_);
  return files_.size();
}

std::vector<std::shared_ptr<OpenFile>> OpenFiles::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<OpenFile>> all;
  for (const auto& [number, file] : files_) all.push_back(file);
  return all;
}

}  // namespace spate::fuse
