// SPDX-License-Identifier: Apache-2.0
#include "trove/mem/mem_store.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "trove/execute.h"
#include "trove/pieces.h"
#include "trove/sparse.h"

namespace spate::trove {

namespace {

constexpr std::uint64_t kPage = 4096;

std::uint64_t page_down(std::uint64_t offset) { return offset / kPage * kPage; }
std::uint64_t page_up(std::uint64_t offset) { return page_down(offset + kPage - 1); }

/// The pages that the extents touch, in bytes. A page counts once for every extent that touches it, so the result is
/// never too small.
std::uint64_t pages_touched(std::span<const Extent> extents) {
  std::uint64_t bytes = 0;
  for (const Extent& extent : extents) {
    if (extent.size > 0) bytes += page_up(extent.offset + extent.size) - page_down(extent.offset);
  }
  return bytes;
}

/// Pages that a write of these extents would add, bytes; each counted once.
std::uint64_t pages_missing(int fd, std::span<const Extent> extents) {
  std::vector<Extent> sorted(extents.begin(), extents.end());
  std::sort(sorted.begin(), sorted.end(), [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  std::uint64_t missing = 0;
  std::uint64_t seen_to = 0;
  for (const Extent& extent : sorted) {
    if (extent.size == 0) continue;
    const std::uint64_t begin = std::max(seen_to, page_down(extent.offset));
    const std::uint64_t end = page_up(extent.offset + extent.size);
    if (begin < end) missing += missing_bytes(fd, {begin, end - begin});
    seen_to = std::max(seen_to, end);
  }
  return missing;
}

/// Half of the process's descriptors: the other half is for its connections.
std::uint64_t file_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 2 : 512;
}

}  // namespace

MemStore::Datafile MemStore::find(const DatafileId& id) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : it->second.datafile;
}

Result<MemStore::Datafile> MemStore::open(const DatafileId& id, bool create) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(id);
  if (it != entries_.end()) return it->second.datafile;
  if (!create) return Errc::kNotFound;
  if (entries_.size() >= file_limit()) return Errc::kNoSpace;
  UniqueFd fd(::memfd_create("spate-datafile", MFD_CLOEXEC));
  if (!fd) return errno == EMFILE || errno == ENFILE ? Errc::kNoSpace : errc_from_errno(errno);
  if (::fchmod(fd.get(), 0600) != 0) return errc_from_errno(errno);
  auto datafile = std::make_shared<LocalDatafile>(id, std::move(fd), ChangeTimes{}, nullptr);
  entries_.emplace(id, Entry{datafile, 0});
  return datafile;
}

Errc MemStore::remove(const DatafileId& id) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end()) return Errc::kOk;
  it->second.datafile->mark_unlinked();
  used_ -= it->second.allocated;
  entries_.erase(it);
  return Errc::kOk;
}

Errc MemStore::admit(LocalDatafile& datafile, std::span<const Extent> extents) {
  std::uint64_t free = 0;
  {
    const std::lock_guard lock(mutex_);
    free = capacity_ - std::min(capacity_, used_);
  }
  if (pages_touched(extents) <= free) return Errc::kOk;
  return pages_missing(datafile.fd(), extents) <= free ? Errc::kOk : Errc::kNoSpace;
}

void MemStore::changed(LocalDatafile& datafile, const BytestreamStat& stat) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(datafile.id());
  if (it == entries_.end() || it->second.datafile.get() != &datafile) return;
  used_ = used_ - it->second.allocated + stat.allocated_bytes;
  it->second.allocated = stat.allocated_bytes;
}

std::vector<DatafileId> MemStore::list(const DatafileId& after, std::size_t max) const {
  const std::lock_guard lock(mutex_);
  std::vector<DatafileId> page;
  for (auto it = entries_.upper_bound(after); it != entries_.end() && page.size() < max; ++it)
    page.push_back(it->first);
  return page;
}

SpaceInfo MemStore::space() const {
  const std::lock_guard lock(mutex_);
  SpaceInfo space;
  space.total_bytes = capacity_;
  space.free_bytes = capacity_ - std::min(capacity_, used_);
  space.total_files = file_limit();
  space.free_files = space.total_files - std::min<std::uint64_t>(space.total_files, entries_.size());
  return space;
}

bool MemBytestreams::post(const BytestreamRequest& request, void* user, BytestreamCompletion& done) {
  done = BytestreamCompletion{};
  done.user = user;
  done.status = check_request(request);
  if (request.direct && !fit_for_direct(request, direct_alignment_)) done.status = Errc::kInvalidArgument;
  BytestreamRequest plain = request;
  plain.direct = false;
  if (done.status == Errc::kOk) execute(*store_, plain, done);
  return true;
}

}  // namespace spate::trove
