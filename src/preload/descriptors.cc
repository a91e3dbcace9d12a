// SPDX-License-Identifier: Apache-2.0
#include "preload/descriptors.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "preload/front_link.h"

namespace spate::preload {
namespace {

struct Table {
  std::mutex mutex;
  std::array<DescriptionRef, kMaxDescriptors> of;
};

std::atomic<Table*> current{nullptr};

/// What a thread that forks has locked, and which signals it blocked before.
thread_local Table* locked_by_fork = nullptr;
thread_local std::uint64_t mask_at_fork = 0;

/// No thread may be in the middle of a change of the table when the process is copied: the child would have half an
/// entry. No signal handler may run in between either: it could use a descriptor and wait for this lock.
void before_fork() {
  const std::uint64_t all = ~std::uint64_t{0};
  std::uint64_t mask = 0;
  raw(SYS_rt_sigprocmask, SIG_BLOCK, &all, &mask, sizeof all);
  locked_by_fork = current.load();
  locked_by_fork->mutex.lock();
  mask_at_fork = mask;
}

void after_fork() {
  const std::uint64_t mask = mask_at_fork;
  locked_by_fork->mutex.unlock();
  raw(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, sizeof mask);
}

/// Lives until the process ends. A child of fork() makes its own.
Table& table() {
  static Table& first = []() -> Table& {
    current = new Table;
    ::pthread_atfork(before_fork, after_fork, after_fork);
    return *current.load();
  }();
  std::ignore = first;
  return *current.load();
}

void mark(int descriptor, Mark what) {
  std::uint8_t& now = front().state->marks[descriptor];
  if (now == kForeign && what != kForeign) __atomic_fetch_add(&front().state->special_descriptors, 1, __ATOMIC_RELAXED);
  if (now != kForeign && what == kForeign) __atomic_fetch_sub(&front().state->special_descriptors, 1, __ATOMIC_RELAXED);
  now = what;
}

bool in_range(int descriptor) { return descriptor >= 0 && descriptor < kMaxDescriptors; }

/// The caller holds the table's lock.
DescriptionRef adopt(Table& all, int descriptor) {
  const MemoryIdentity identity = identity_of(descriptor);
  for (int number = next_descriptor(0); number >= 0; number = next_descriptor(number + 1)) {
    const DescriptionRef& other = all.of[static_cast<std::size_t>(number)];
    if (other != nullptr && other->state().identity() == identity) return other;
  }
  auto state = MappedState::adopt(descriptor);
  Mount* const mount = state ? mount_at((*state)->what().prefix) : nullptr;
  if (mount == nullptr) return nullptr;
  return std::make_shared<Description>(*mount, *std::move(state), nullptr);
}

}  // namespace

Description::Description(Mount& mount, std::unique_ptr<MappedState> state, std::unique_ptr<posix::OpenFile> file)
    : mount_(mount),
      state_(std::move(state)),
      file_(std::move(file)),
      forks_before_(front_forks()),
      shared_(file_ == nullptr) {
  if (file_ != nullptr) file_->share_position((*state_)->position);
}

Description::~Description() {
  std::ignore = close();
  if (may_be_shared() || (*state_)->kept.load() != 0) state_->keep_no_more();
}

std::uint32_t Description::front_forks() { return __atomic_load_n(&front().state->forks, __ATOMIC_RELAXED); }

Result<posix::OpenFile*> Description::file() {
  const std::lock_guard lock(*opening_);
  if (!state_->is_still_ours()) return Errc::kStaleHandle;
  if (file_ != nullptr) {
    // Other threads use the file, so a change of F_SETFL is applied to it instead of opening it again.
    file_->set_append((flags() & O_APPEND) != 0);
    return file_.get();
  }
  posix::OpenRequest request;
  request.where = posix::PathAt::object(handle());
  request.flags = flags();
  SPATE_TRY(file_, mount_.run([&](posix::FileSystem& files) { return files.open(request); }));
  file_->share_position((*state_)->position);
  return file_.get();
}

Result<void> Description::close() {
  const std::lock_guard lock(*opening_);
  if (file_ == nullptr) return {};
  auto closed = mount_.run([&](posix::FileSystem&) { return file_->close(); });
  file_ = nullptr;
  pending.reset();
  return closed;
}

/// Overwrites the members without destroying them, because a thread of the parent may have been about to change them.
void Description::forget() {
  std::ignore = opening_.release();
  opening_ = std::make_unique<std::mutex>();
  new (&file_) std::unique_ptr<posix::OpenFile>();
  shared_ = true;
  new (&pending) std::optional<Pending>();
}

int next_descriptor(int from) {
  if (from >= kMaxDescriptors) return -1;
  const std::uint8_t* const marks = front().state->marks;
  const void* const found = std::memchr(marks + from, kOurs, static_cast<std::size_t>(kMaxDescriptors - from));
  return found == nullptr ? -1 : static_cast<int>(static_cast<const std::uint8_t*>(found) - marks);
}

DescriptionRef description_of(int descriptor) {
  if (!in_range(descriptor) || front().state->marks[descriptor] != kOurs) return nullptr;
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  DescriptionRef& entry = all.of[static_cast<std::size_t>(descriptor)];
  if (entry != nullptr) return entry;
  entry = adopt(all, descriptor);
  if (entry != nullptr) ++entry->numbers;
  return entry;
}

DescriptionRef description_behind(const std::string& path) {
  if (!path.starts_with("/proc/") || path.find("/fd/") == std::string::npos) return nullptr;
  const UniqueFd copy(static_cast<int>(raw(SYS_open, path.c_str(), O_PATH | O_CLOEXEC)));
  if (copy.get() < 0) return nullptr;
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  return adopt(all, copy.get());
}

DescriptionRef known_description_of(int descriptor) {
  if (!in_range(descriptor) || front().state->marks[descriptor] != kOurs) return nullptr;
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  return all.of[static_cast<std::size_t>(descriptor)];
}

bool is_last(int descriptor) {
  const DescriptionRef meant = known_description_of(descriptor);
  return meant != nullptr && meant->numbers.load() == 1;
}

long install(const DescriptionRef& description, int descriptor) {
  if (!in_range(descriptor)) {
    raw(SYS_close, descriptor);
    return -EMFILE;
  }
  if (!front().in_vfork_child()) replace(descriptor, description);
  return descriptor;
}

DescriptionRef replace(int descriptor, DescriptionRef description) {
  if (!in_range(descriptor)) return nullptr;
  Table& all = table();
  const std::lock_guard lock(all.mutex);
  mark(descriptor, description == nullptr ? kForeign : kOurs);
  if (description != nullptr) ++description->numbers;
  std::swap(all.of[static_cast<std::size_t>(descriptor)], description);
  if (description != nullptr) --description->numbers;
  return description;
}

Result<bool> release(DescriptionRef description) {
  if (description == nullptr) return false;
  if (description->numbers.load() > 0) return false;
  // Another thread still uses the description, and closes it when it is done.
  if (description.use_count() > 1) return false;
  SPATE_TRY(std::ignore, description->close());
  return true;
}

void forget_descriptors() {
  Table& before = table();
  auto* const made = new Table;
  for (int number = next_descriptor(0); number >= 0; number = next_descriptor(number + 1)) {
    const auto index = static_cast<std::size_t>(number);
    made->of[index] = std::move(before.of[index]);
    if (made->of[index] != nullptr) made->of[index]->forget();
  }
  current = made;
}

}  // namespace spate::preload
