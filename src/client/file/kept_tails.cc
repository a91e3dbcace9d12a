// SPDX-License-Identifier: Apache-2.0
#include "client/file/kept_tails.h"

#include <algorithm>

namespace spate::client {

void KeptTails::keep(Handle file, ByteView content, std::uint64_t change_sum) {
  const std::size_t length = content.size() % kPage;
  const std::lock_guard lock(mutex_);
  if (const auto before = by_file_.find(file); before != by_file_.end()) remove(before->second);
  if (length == 0) return;
  const ByteView tail = content.last(length);
  tails_.push_back({file, content.size(), change_sum, Bytes(tail.begin(), tail.end())});
  by_file_[file] = std::prev(tails_.end());
  used_ += length + kOverhead;
  while (used_ > most_) remove(tails_.begin());
}

std::size_t KeptTails::bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

void KeptTails::remove(std::list<Tail>::iterator tail) {
  used_ -= tail->bytes.size() + kOverhead;
  by_file_.erase(tail->file);
  tails_.erase(tail);
}

std::optional<std::size_t> KeptTails::read(const Attributes& now, std::uint64_t offset, MutableByteView room) {
  const std::lock_guard lock(mutex_);
  const auto found = by_file_.find(now.handle);
  if (found == by_file_.end()) return std::nullopt;
  const Tail& tail = *found->second;
  const std::uint64_t begin = tail.size - tail.bytes.size();
  const bool same = now.size_known && now.size == tail.size && now.change_sum == tail.change_sum;
  if (!same || offset < begin || offset > tail.size) return std::nullopt;
  const ByteView bytes = ByteView(tail.bytes).subspan(static_cast<std::size_t>(offset - begin));
  const std::size_t length = std::min(bytes.size(), room.size());
  std::copy_n(bytes.begin(), length, room.begin());
  return length;
}

}  // namespace spate::client
