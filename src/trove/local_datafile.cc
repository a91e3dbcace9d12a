// SPDX-License-Identifier: Apache-2.0
#include "trove/local_datafile.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace spate::trove {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

std::int64_t to_ns(const timespec& t) { return t.tv_sec * kNsPerSecond + t.tv_nsec; }

timespec to_timespec(std::uint64_t ns) {
  const auto value = static_cast<std::int64_t>(ns);
  return {value / kNsPerSecond, value % kNsPerSecond};
}

std::uint64_t not_negative(std::int64_t ns) { return ns < 0 ? 0 : static_cast<std::uint64_t>(ns); }

}  // namespace

ChangeTimes ChangeTimes::restore(const struct stat& st) {
  const std::int64_t changed = to_ns(st.st_ctim);
  ChangeTimes times{not_negative(to_ns(st.st_atim)), std::max<std::int64_t>(0, to_ns(st.st_mtim))};
  // A change of content gives mtime and ctime the same value; a write-back makes them differ. If they are equal, the
  // content has changed since the counter was stored.
  if (times.mtime_ns == changed) times.counter = std::max(times.counter, not_negative(changed)) + 1;
  return times;
}

int store_times(int fd, const ChangeTimes& times) {
  const timespec both[2] = {to_timespec(times.counter), to_timespec(not_negative(times.mtime_ns))};
  return ::futimens(fd, both) == 0 ? 0 : errno;
}

LocalDatafile::LocalDatafile(DatafileId id, UniqueFd fd, ChangeTimes times, ChangeRecords* records)
    : id_(id), descriptor_(std::make_shared<DatafileDescriptor>(std::move(fd))), records_(records), times_(times) {}

LocalDatafile::~LocalDatafile() {
  // A record whose times could not be written back stays: the next start will try again.
  if (record_ >= 0 && !dirty_) records_->release(record_);
}

int LocalDatafile::direct_fd() const {
  const std::lock_guard lock(mutex_);
  if (direct_) return direct_.get();
  // The inode is not reached by its name, because the datafile may have been removed. The kernel has the inode in
  // memory, so this waits for no device.
  const std::string self = "/proc/self/fd/" + std::to_string(fd());
  direct_.reset(::open(self.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC | O_NOATIME));
  return direct_ ? direct_.get() : -errno;
}

void LocalDatafile::bump(WallTime now) {
  times_.counter = std::max(times_.counter + 1, not_negative(now.ns));
  times_.mtime_ns = std::max(times_.mtime_ns, now.ns);
  dirty_ = true;
}

void LocalDatafile::save_record() {
  if (records_ == nullptr || unlinked_) return;
  if (record_ < 0) record_ = records_->take();
  if (record_ >= 0) records_->store(record_, {id_, changing_, times_.counter, times_.mtime_ns});
}

void LocalDatafile::note_begin(WallTime now) {
  ++changing_;
  bump(now);
  save_record();
}

void LocalDatafile::begin_change(WallTime now) {
  std::unique_lock lock(mutex_);
  while (alone_) not_alone_.wait(lock);
  note_begin(now);
}

bool LocalDatafile::try_begin_change(WallTime now) {
  const std::lock_guard lock(mutex_);
  if (alone_) return false;
  note_begin(now);
  return true;
}

bool LocalDatafile::try_be_alone() {
  const std::lock_guard lock(mutex_);
  alone_ = changing_ == 1;
  return alone_;
}

void LocalDatafile::end_change(WallTime now) {
  bool without_record = false;
  {
    const std::lock_guard lock(mutex_);
    --changing_;
    if (std::exchange(alone_, false)) not_alone_.notify_all();
    bump(now);
    save_record();
    without_record = records_ != nullptr && record_ < 0 && !unlinked_;
  }
  // More datafiles are dirty than there are records: the inode itself has to keep this one's counter.
  if (without_record) write_back();
}

void LocalDatafile::touch() {
  const std::lock_guard lock(mutex_);
  dirty_ = true;
  save_record();
}

std::uint64_t LocalDatafile::change_counter() const {
  const std::lock_guard lock(mutex_);
  return times_.counter;
}

ChangeTimes LocalDatafile::times() const {
  const std::lock_guard lock(mutex_);
  return times_;
}

Errc LocalDatafile::stat(BytestreamStat& out) const {
  // The counter is read first. So a size from before a change is never paired with the counter of that change. A size
  // from after a change may be paired with an older counter, but the change itself reports a newer one.
  const ChangeTimes before = times();
  struct stat st{};
  if (::fstat(fd(), &st) != 0) return errc_from_errno(errno);
  out.size = static_cast<std::uint64_t>(st.st_size);
  out.allocated_bytes = static_cast<std::uint64_t>(st.st_blocks) * 512;
  out.change_counter = before.counter;
  out.mtime = WallTime{before.mtime_ns};
  return Errc::kOk;
}

Errc LocalDatafile::write_back() {
  const std::lock_guard one_at_a_time(write_back_mutex_);
  ChangeTimes times;
  {
    const std::lock_guard lock(mutex_);
    if (!dirty_ || unlinked_) return Errc::kOk;
    times = times_;
  }
  if (const int error = store_times(fd(), times); error != 0) return errc_from_errno(error);
  const std::lock_guard lock(mutex_);
  if (changing_ > 0 || times_.counter != times.counter) return Errc::kOk;  // changed meanwhile: stays dirty
  dirty_ = false;
  if (record_ >= 0) records_->release(std::exchange(record_, -1));
  return Errc::kOk;
}

bool LocalDatafile::dirty() const {
  const std::lock_guard lock(mutex_);
  return dirty_;
}

void LocalDatafile::mark_unlinked() {
  const std::lock_guard lock(mutex_);
  unlinked_ = true;
  if (record_ >= 0) records_->release(std::exchange(record_, -1));
}

bool LocalDatafile::entry_synced() const {
  const std::lock_guard lock(mutex_);
  return entry_synced_;
}

void LocalDatafile::set_entry_synced() {
  const std::lock_guard lock(mutex_);
  entry_synced_ = true;
}

}  // namespace spate::trove
