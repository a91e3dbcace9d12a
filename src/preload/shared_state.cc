// SPDX-License-Identifier: Apache-2.0
#include "preload/shared_state.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "preload/back.h"

namespace spate::preload {
namespace {

constexpr std::size_t kLongestName = 240;  // of a memfd

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

Result<std::unique_ptr<MappedState>> MappedState::create(const New& what, int& descriptor) {
  const std::string name = (kDescriptorName + what.path).substr(0, kLongestName);
  const Transient memfd(raw(SYS_memfd_create, name.c_str(), MFD_CLOEXEC));
  if (failed(memfd.descriptor)) return error_of(memfd.descriptor, "make a descriptor");
  const long sized = raw(SYS_ftruncate, memfd.descriptor, sizeof(SharedState));
  if (failed(sized)) return error_of(sized, "make a descriptor's state");
  SPATE_TRY(auto made, map(memfd.descriptor));
  SharedState& state = *made->state_;
  state.magic = SharedState::kMagic;
  state.handle = what.handle.value;
  state.flags =
      static_cast<std::uint32_t>(what.flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW));
  state.type = static_cast<std::uint32_t>(what.type);
  copy_text(state.prefix, sizeof state.prefix, what.prefix);
  copy_text(state.path, sizeof state.path, what.path);
  SPATE_TRY(std::ignore, make_turn(state.turn));
  const long opened = raw(SYS_open, link_of(memfd.descriptor).c_str(), O_PATH | (what.flags & O_CLOEXEC));
  if (failed(opened)) return error_of(opened, "make a descriptor");
  descriptor = static_cast<int>(opened);
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

MappedState::~MappedState() { raw(SYS_munmap, state_, sizeof(SharedState)); }

Turn::Turn(MappedState& state) : mutex_(&state->turn) {
  if (pthread_mutex_lock(mutex_) == EOWNERDEAD) pthread_mutex_consistent(mutex_);
}

Turn::~Turn() { pthread_mutex_unlock(mutex_); }

}  // namespace spate::preload
