// SPDX-License-Identifier: Apache-2.0
#include "preload/shared_state.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "preload/back.h"

namespace spate::preload {
namespace {

Error error_of(long result, const char* what) { return errno_error(static_cast<int>(-result), what); }

bool ends(const char* text, std::size_t room) { return std::memchr(text, '\0', room) != nullptr; }

void copy_text(char* to, std::size_t room, const std::string& text) {
  const std::size_t size = std::min(room - 1, text.size());
  std::memcpy(to, text.data(), size);
  to[size] = '\0';
}

Result<void> make_turn(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int error = pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return error == 0 ? Result<void>() : errno_error(error, "make a shared lock");
}

/// Closes what only serves to make another one.
struct Transient {
  explicit Transient(long d) : descriptor(d) {}
  ~Transient() {
    if (!failed(descriptor)) raw(SYS_close, descriptor);
  }
  Transient(const Transient&) = delete;
  Transient& operator=(const Transient&) = delete;
  const long descriptor;
};

/// Memory that was an open file's.
struct Spare {
  SharedState* state;
  std::uint64_t identity;
  int descriptor;  // hidden
};
constexpr std::size_t kMostSpares = 8;

struct Spares {
  std::mutex mutex;
  std::vector<Spare> all;
};

Spares*& spares() {
  static Spares* all = new Spares;
  return all;
}

std::optional<Spare> take_spare() {
  Spares& kept = *spares();
  const std::lock_guard lock(kept.mutex);
  if (kept.all.empty()) return std::nullopt;
  const Spare spare = kept.all.back();
  kept.all.pop_back();
  return spare;
}

bool give_spare(const Spare& spare) {
  Spares& kept = *spares();
  const std::lock_guard lock(kept.mutex);
  if (kept.all.size() == kMostSpares) return false;
  kept.all.push_back(spare);
  return true;
}

/// All but the magic number and the turn.
void fill(SharedState& state, const MappedState::New& what) {
  state.handle = what.handle.value;
  state.flags =
      static_cast<std::uint32_t>(what.flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW));
  state.type = static_cast<std::uint32_t>(what.type);
  state.position = 0;
  state.kept = 0;
  state.locked_at = 0;
  state.holder[0] = '\0';
  copy_text(state.prefix, sizeof state.prefix, what.prefix);
  copy_text(state.path, sizeof state.path, what.path);
}

std::string link_of(long descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

}  // namespace

std::uint64_t identity_of(int descriptor) {
  struct stat st{};
  return failed(raw(SYS_fstat, descriptor, &st)) ? 0 : st.st_ino;
}

Result<std::unique_ptr<MappedState>> MappedState::map(long descriptor) {
  struct stat st{};
  const long known = raw(SYS_fstat, descriptor, &st);
  if (failed(known)) return error_of(known, "look at a descriptor");
  if (static_cast<std::size_t>(st.st_size) < sizeof(SharedState)) return Errc::kInvalidArgument;
  const long mapped = raw(SYS_mmap, 0, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (failed(mapped)) return error_of(mapped, "map a descriptor's state");
  auto* const state = reinterpret_cast<SharedState*>(mapped);  // NOLINT(performance-no-int-to-ptr)
  return std::unique_ptr<MappedState>(new MappedState(state, st.st_ino));
}

/// `path_only`: a hidden or temporary O_PATH descriptor of it.
Result<std::unique_ptr<MappedState>> MappedState::make(long& path_only) {
  // Not named for the path: another file may have it later.
  const Transient memfd(path_only = raw(SYS_memfd_create, kDescriptorName, MFD_CLOEXEC));
  if (failed(memfd.descriptor)) return error_of(memfd.descriptor, "make a descriptor");
  path_only = raw(SYS_ftruncate, memfd.descriptor, sizeof(SharedState));
  if (failed(path_only)) return error_of(path_only, "make a descriptor's state");
  path_only = -EIO;
  SPATE_TRY(auto made, map(memfd.descriptor));
  made->state_->magic = SharedState::kMagic;
  SPATE_TRY(std::ignore, make_turn(made->state_->turn));
  path_only = raw(SYS_open, link_of(memfd.descriptor).c_str(), O_PATH | O_CLOEXEC);
  if (failed(path_only)) return error_of(path_only, "make a descriptor");
  return made;
}

Result<std::unique_ptr<MappedState>> MappedState::create(const New& what, int& descriptor) {
  std::unique_ptr<MappedState> made;
  long path_only = -1;
  if (const auto spare = take_spare()) {
    made.reset(new MappedState(spare->state, spare->identity));
    path_only = spare->descriptor;
  } else {
    auto fresh = make(path_only);
    descriptor = static_cast<int>(path_only);
    if (!fresh) return std::move(fresh).error();
    made = *std::move(fresh);
  }
  fill(*made->state_, what);
  // The lowest number that is free, as open(2) gives it.
  const int how = (what.flags & O_CLOEXEC) != 0 ? F_DUPFD_CLOEXEC : F_DUPFD;
  const long number = raw(SYS_fcntl, path_only, how, 0);
  ::close(static_cast<int>(path_only));
  descriptor = static_cast<int>(number);
  if (failed(number)) return error_of(number, "make a descriptor");
  return made;
}

Result<std::unique_ptr<MappedState>> MappedState::adopt(int descriptor) {
  const Transient memfd(raw(SYS_open, link_of(descriptor).c_str(), O_RDWR | O_CLOEXEC));
  if (failed(memfd.descriptor)) return error_of(memfd.descriptor, "open a descriptor's state");
  SPATE_TRY(auto mapped, map(memfd.descriptor));
  const SharedState& state = *mapped->state_;
  const bool whole = state.magic == SharedState::kMagic && ends(state.holder, sizeof state.holder) &&
                     ends(state.prefix, sizeof state.prefix) && ends(state.path, sizeof state.path) &&
                     state.type >= static_cast<std::uint32_t>(FileType::kRegular) &&
                     state.type <= static_cast<std::uint32_t>(FileType::kBlockDevice);
  if (!whole) return Errc::kInvalidArgument;
  return mapped;
}

MappedState::~MappedState() {
  if (spare_ >= 0 && give_spare({state_, identity_, spare_})) return;
  keep_no_more();
  raw(SYS_munmap, state_, sizeof(SharedState));
}

void MappedState::keep_for_another(int descriptor) {
  keep_no_more();
  spare_ = descriptor;
}

void MappedState::keep_no_more() {
  if (spare_ >= 0) ::close(std::exchange(spare_, -1));
}

void forget_spare_states() { spares() = new Spares; }  // a thread of the parent may have held the lock

Turn::Turn(MappedState& state) : mutex_(&state->turn) {
  if (pthread_mutex_lock(mutex_) == EOWNERDEAD) pthread_mutex_consistent(mutex_);
}

Turn::~Turn() { pthread_mutex_unlock(mutex_); }

}  // namespace spate::preload
