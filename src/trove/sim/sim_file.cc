// SPDX-License-Identifier: Apache-2.0
#include "trove/sim/sim_file.h"

#include <algorithm>
#include <vector>

namespace spate::trove {
namespace {

std::uint64_t first_page(const Extent& extent) { return extent.offset / SimFile::kPage; }
std::uint64_t end_page(const Extent& extent) {
  return (extent.offset + extent.size + SimFile::kPage - 1) / SimFile::kPage;
}

}  // namespace

std::uint64_t SimFile::missing_pages(const Extent& extent) const {
  if (extent.size == 0) return 0;
  const auto from = now_.pages.lower_bound(first_page(extent));
  const auto to = now_.pages.lower_bound(end_page(extent));
  return end_page(extent) - first_page(extent) - static_cast<std::uint64_t>(std::distance(from, to));
}

BytestreamStat SimFile::stat() const {
  BytestreamStat stat;
  stat.size = now_.size;
  stat.allocated_bytes = allocated_bytes();
  stat.change_counter = now_.counter;
  stat.mtime = WallTime{now_.mtime_ns};
  return stat;
}

std::size_t SimFile::read(std::uint64_t offset, MutableByteView out) const {
  if (offset >= now_.size) return 0;
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), now_.size - offset));
  for (std::size_t done = 0; done < size;) {
    const std::uint64_t in_page = (offset + done) % kPage;
    const std::size_t part = std::min(size - done, static_cast<std::size_t>(kPage - in_page));
    const auto page = now_.pages.find((offset + done) / kPage);
    if (page == now_.pages.end()) {
      std::memset(out.data() + done, 0, part);
    } else {
      std::memcpy(out.data() + done, page->second->data() + in_page, part);
    }
    done += part;
  }
  return size;
}

SimFile::Page& SimFile::page_to_change(std::uint64_t index) {
  dirty_.insert(index);
  lost_.erase(index);
  PagePtr& page = now_.pages[index];
  if (page == nullptr) {
    page = std::make_shared<Page>();
  } else if (page.use_count() > 1) {
    page = std::make_shared<Page>(*page);  // the disk's image keeps the old one
  }
  return const_cast<Page&>(*page);
}

void SimFile::drop_page(std::uint64_t index) {
  if (now_.pages.erase(index) == 0) return;
  dirty_.insert(index);
  lost_.erase(index);
}

void SimFile::zero_within_page(std::uint64_t offset, std::uint64_t size) {
  if (size == 0 || now_.pages.count(offset / kPage) == 0) return;
  std::memset(page_to_change(offset / kPage).data() + offset % kPage, 0, size);
}

void SimFile::write(std::uint64_t offset, ByteView data) {
  for (std::size_t done = 0; done < data.size();) {
    const std::uint64_t in_page = (offset + done) % kPage;
    const std::size_t part = std::min(data.size() - done, static_cast<std::size_t>(kPage - in_page));
    std::memcpy(page_to_change((offset + done) / kPage).data() + in_page, data.data() + done, part);
    done += part;
  }
  now_.size = std::max(now_.size, offset + data.size());
  changed_since_sync_ = true;
}

void SimFile::truncate(std::uint64_t size) {
  if (size < now_.size) {
    zero_within_page(size, size % kPage == 0 ? 0 : kPage - size % kPage);
    const std::uint64_t keep = (size + kPage - 1) / kPage;
    while (!now_.pages.empty() && now_.pages.rbegin()->first >= keep) drop_page(now_.pages.rbegin()->first);
  }
  now_.size = size;
}

void SimFile::punch(const Extent& extent) {
  if (extent.size == 0) return;
  const std::uint64_t end = extent.offset + extent.size;
  const std::uint64_t whole_from = (extent.offset + kPage - 1) / kPage;
  const std::uint64_t whole_to = end / kPage;
  if (whole_from > whole_to) return zero_within_page(extent.offset, extent.size);
  zero_within_page(extent.offset, whole_from * kPage - extent.offset);
  zero_within_page(whole_to * kPage, end - whole_to * kPage);
  std::vector<std::uint64_t> whole;
  for (auto it = now_.pages.lower_bound(whole_from); it != now_.pages.end() && it->first < whole_to; ++it) {
    whole.push_back(it->first);
  }
  for (const std::uint64_t index : whole) drop_page(index);
}

void SimFile::allocate(const Extent& extent) {
  if (extent.size == 0) return;
  for (std::uint64_t index = first_page(extent); index < end_page(extent); ++index) {
    if (now_.pages.count(index) == 0) page_to_change(index);
  }
}

void SimFile::extend(std::uint64_t size) { now_.size = std::max(now_.size, size); }

std::uint64_t SimFile::data_ranges(std::uint64_t from, std::size_t max, std::vector<Extent>& out) const {
  for (auto it = now_.pages.lower_bound(from / kPage); it != now_.pages.end() && it->first * kPage < now_.size; ++it) {
    const std::uint64_t begin = std::max(it->first * kPage, from);
    const std::uint64_t end = std::min(it->first * kPage + kPage, now_.size);
    if (begin >= end) break;
    if (!out.empty() && out.back().offset + out.back().size == begin) {
      out.back().size += end - begin;
      continue;
    }
    if (out.size() == max) return out.back().offset + out.back().size;
    out.push_back({begin, end - begin});
  }
  return kMaxDatafileBytes;
}

void SimFile::changed(WallTime when) {
  now_.counter = std::max(now_.counter + 1, static_cast<std::uint64_t>(std::max<std::int64_t>(0, when.ns)));
  now_.mtime_ns = std::max(now_.mtime_ns, when.ns);
  changed_since_sync_ = true;
}

void SimFile::sync() {
  for (const std::uint64_t index : dirty_) {
    const auto page = now_.pages.find(index);
    if (page == now_.pages.end()) {
      disk_.pages.erase(index);
    } else {
      disk_.pages[index] = page->second;
    }
  }
  dirty_.clear();
  disk_.size = now_.size;
  disk_.counter = now_.counter;
  disk_.mtime_ns = now_.mtime_ns;
  changed_since_sync_ = false;
}

void SimFile::fail_write_back(Random& random) {
  for (auto it = dirty_.begin(); it != dirty_.end();) {
    const auto page = now_.pages.find(*it);
    if (page == now_.pages.end()) {  // a hole
      ++it;
      continue;
    }
    if (random.chance(1, 3)) {
      disk_.pages[*it] = page->second;
    } else {
      lost_.insert(*it);
    }
    it = dirty_.erase(it);
  }
}

bool SimFile::settle_page(std::uint64_t index, Random& random) {
  const auto newer = now_.pages.find(index);
  const auto older = disk_.pages.find(index);
  const PagePtr fresh = newer == now_.pages.end() ? nullptr : newer->second;
  const PagePtr old = older == disk_.pages.end() ? nullptr : older->second;
  const std::uint64_t fate = random.below(3);
  if (fate == 0 || fresh == old) return false;
  if (fate == 1 || fresh == nullptr) {
    if (fresh == nullptr) {
      disk_.pages.erase(index);
    } else {
      disk_.pages[index] = fresh;
    }
    return true;
  }
  auto torn = old == nullptr ? std::make_shared<Page>() : std::make_shared<Page>(*old);
  for (std::uint64_t at = 0; at < kPage; at += kSector) {
    if (random.chance(1, 2))
      std::copy_n(fresh->begin() + static_cast<std::ptrdiff_t>(at), kSector,
                  torn->begin() + static_cast<std::ptrdiff_t>(at));
  }
  disk_.pages[index] = torn;
  return true;
}

void SimFile::crash(Random& random) {
  bool differs = !lost_.empty();
  for (const std::uint64_t index : dirty_) differs |= settle_page(index, random);
  dirty_.clear();
  lost_.clear();
  if (changed_since_sync_ && random.chance(1, 2)) {
    differs |= disk_.size != now_.size;
    disk_.size = now_.size;
  }
  // The size comes first: the local file system would not show bytes past it.
  const std::uint64_t counter = now_.counter;
  const std::int64_t mtime_ns = now_.mtime_ns;
  now_ = disk_;
  const std::uint64_t size = now_.size;
  now_.size = ~std::uint64_t{0};
  truncate(size);
  if (differs) {  // content that no client has seen: it must not have a counter that a client knows
    now_.counter = counter + 1;
    now_.mtime_ns = mtime_ns;
  }
  sync();
}

}  // namespace spate::trove
