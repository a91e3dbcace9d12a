// SPDX-License-Identifier: Apache-2.0
#include "preload/shared_state.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "preload/front_link.h"

namespace spate::preload {
namespace {

Error error_of(long result, const char* what) { return errno_error(static_cast<int>(-result), what); }

void copy_text(char* to, std::size_t room, const std::string& text) {
  const std::size_t size = std::min(room - 1, text.size());
  std::memcpy(to, text.data(), size);
  std::memset(to + size, 0, room - size);
}

/// Closes a descriptor that is only needed to make another one.
struct Transient {
  explicit Transient(long d) : descriptor(d) {}
  ~Transient() {
    if (!failed(descriptor)) raw(SYS_close, descriptor);
  }
  Transient(const Transient&) = delete;
  Transient& operator=(const Transient&) = delete;
  const long descriptor;
};

/// Memory of an earlier open file, kept for reuse.
struct Spare {
  MappedState::Memory memory;
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

void drop(const Spare& spare) {
  ::close(spare.descriptor);
  raw(SYS_munmap, spare.memory.state, sizeof(SharedState));
}

/// Takes a spare of this user. When the process kept a spare, it may have had another user.
std::optional<Spare> take_spare() {
  Spares& kept = *spares();
  const std::lock_guard lock(kept.mutex);
  while (!kept.all.empty()) {
    const Spare spare = kept.all.back();
    kept.all.pop_back();
    if (spare.memory.owner == ::geteuid()) return spare;
    drop(spare);
  }
  return std::nullopt;
}

bool give_spare(const Spare& spare) {
  Spares& kept = *spares();
  const std::lock_guard lock(kept.mutex);
  if (kept.all.size() == kMostSpares) return false;
  kept.all.push_back(spare);
  return true;
}

/// The flags that a later open of the same file takes over. O_TMPFILE is not among them: it would make another file.
int kept_flags(int flags) {
  constexpr int kNotKept = O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW;
  return flags & ~(kNotKept | ((flags & O_TMPFILE) == O_TMPFILE ? O_TMPFILE : 0));
}

/// Sets everything but the magic number and the turn.
void fill(SharedState& state, const MappedState::FileIdentity& what) {
  state.handle = what.handle.value;
  state.type = static_cast<std::uint32_t>(what.type);
  state.fixed = static_cast<std::uint32_t>(what.flags & ~kSettableFlags);
  copy_text(state.prefix, sizeof state.prefix, what.prefix);
  copy_text(state.path, sizeof state.path, what.path);
  state.flags = static_cast<std::uint32_t>(what.flags & kSettableFlags);
  state.position = 0;
  state.kept = 0;
  state.locked_at = 0;
  state.broker = 0;
}

/// A seal over the contents of a state. It is stored as the time of last change of the memory's inode, of which 94 bits
/// can be chosen. Only the owner of a file may set that time. A process that has given up the owner's rights can still
/// write through its mapping, but that does not move the time (tmpfs), and the memory's mode prevents other writes.
struct timespec seal_of(const MappedState::FileIdentity& what) {
  Bytes text;
  const auto add = [&text](const void* data, std::size_t size) {
    const auto* const bytes = static_cast<const std::byte*>(data);
    text.insert(text.end(), bytes, bytes + size);
  };
  const std::uint64_t handle = what.handle.value;
  const std::uint32_t numbers[2] = {static_cast<std::uint32_t>(what.type),
                                    static_cast<std::uint32_t>(what.flags & ~kSettableFlags)};
  add(&handle, sizeof handle);
  add(numbers, sizeof numbers);
  add(what.prefix.c_str(), what.prefix.size() + 1);
  add(what.path.c_str(), what.path.size() + 1);
  const Mac mac = hmac(Key{}, text);  // used as a hash: the key is no secret
  std::int64_t seconds = 0;
  std::uint32_t rest = 0;
  std::memcpy(&seconds, mac.data(), sizeof seconds);
  std::memcpy(&rest, mac.data() + sizeof seconds, sizeof rest);
  // Keeps away from the smallest and the largest times that kernels store.
  return {seconds >> 1, static_cast<long>(rest % 1'000'000'000U)};
}

std::string link_of(long descriptor) { return "/proc/self/fd/" + std::to_string(descriptor); }

Result<void> put_seal(long descriptor, const MappedState::FileIdentity& what) {
  const struct timespec times[2] = {{0, UTIME_OMIT}, seal_of(what)};
  long set = raw(SYS_utimensat, descriptor, "", times, AT_EMPTY_PATH);
  if (failed(set)) set = raw(SYS_utimensat, AT_FDCWD, link_of(descriptor).c_str(), times, 0);  // before Linux 5.8
  return failed(set) ? error_of(set, "seal a descriptor's state") : Result<void>();
}

Result<MappedState::Memory> map(long descriptor) {
  const long mapped = raw(SYS_mmap, 0, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (failed(mapped)) return error_of(mapped, "map a descriptor's state");
  MappedState::Memory memory;
  memory.state = reinterpret_cast<SharedState*>(mapped);  // NOLINT(performance-no-int-to-ptr)
  memory.identity = identity_of(static_cast<int>(descriptor));
  memory.owner = ::geteuid();
  return memory;
}

/// `path_only`: receives a temporary O_PATH descriptor of the memory.
Result<MappedState::Memory> make(long& path_only) {
  // The name is not the path, because another file may use the memory later.
  const Transient memfd(path_only = make_memory(kDescriptorName, sizeof(SharedState)));
  if (failed(memfd.descriptor)) return error_of(memfd.descriptor, "make a descriptor");
  path_only = -EIO;
  SPATE_TRY(const MappedState::Memory memory, map(memfd.descriptor));
  memory.state->magic = SharedState::kMagic;
  path_only = raw(SYS_open, link_of(memfd.descriptor).c_str(), O_PATH | O_CLOEXEC);
  if (!failed(path_only)) return memory;
  raw(SYS_munmap, memory.state, sizeof(SharedState));
  return error_of(path_only, "make a descriptor");
}

}  // namespace

Result<std::unique_ptr<MappedState>> MappedState::create(FileIdentity what, int& descriptor) {
  Memory memory;
  long path_only = -1;
  // Takes the lowest free number, as open(2) does.
  const int how = (what.flags & O_CLOEXEC) != 0 ? F_DUPFD_CLOEXEC : F_DUPFD;
  what.flags = kept_flags(what.flags);
  if (const auto spare = take_spare()) {
    memory = spare->memory;
    path_only = spare->descriptor;
  } else {
    auto fresh = make(path_only);
    descriptor = static_cast<int>(path_only);
    if (!fresh) return std::move(fresh).error();
    memory = *fresh;
  }
  fill(*memory.state, what);
  auto sealed = put_seal(path_only, what);
  const long number = sealed ? raw(SYS_fcntl, path_only, how, 0) : -EIO;
  ::close(static_cast<int>(path_only));
  std::unique_ptr<MappedState> made(new MappedState(memory, std::move(what)));
  descriptor = static_cast<int>(number);
  if (!sealed) return std::move(sealed).error();
  if (failed(number)) return error_of(number, "make a descriptor");
  return made;
}

Result<std::unique_ptr<MappedState>> MappedState::adopt(int descriptor) {
  SPATE_TRY(const UniqueFd memfd, open_memory(descriptor, O_RDWR));
  struct stat st{};
  if (failed(raw(SYS_fstat, memfd.get(), &st)) || static_cast<std::size_t>(st.st_size) != sizeof(SharedState))
    return Errc::kInvalidArgument;
  SPATE_TRY(const Memory memory, map(memfd.get()));
  const SharedState& state = *memory.state;
  FileIdentity what;
  what.handle = Handle(state.handle);
  what.type = static_cast<FileType>(state.type);
  what.flags = static_cast<int>(state.fixed) & ~kSettableFlags;
  what.prefix = shared_text(state.prefix);
  what.path = shared_text(state.path);
  // Checks the copy, because the original may change meanwhile.
  const struct timespec seal = seal_of(what);
  const bool whole = state.magic == SharedState::kMagic && what.type >= FileType::kRegular &&
                     what.type <= FileType::kBlockDevice && st.st_mtim.tv_sec == seal.tv_sec &&
                     st.st_mtim.tv_nsec == seal.tv_nsec;
  std::unique_ptr<MappedState> adopted(new MappedState(memory, std::move(what)));
  if (!whole) return Errc::kInvalidArgument;
  end_turn_of_earlier_program(memory.state->turn);
  return adopted;
}

MappedState::~MappedState() {
  if (spare_ >= 0 && give_spare({memory_, spare_})) return;
  keep_no_more();
  raw(SYS_munmap, memory_.state, sizeof(SharedState));
}

void MappedState::keep_for_another(int descriptor) {
  keep_no_more();
  spare_ = descriptor;
}

void MappedState::keep_no_more() {
  if (spare_ >= 0) ::close(std::exchange(spare_, -1));
}

void forget_spare_states() { spares() = new Spares; }  // a thread of the parent may have held the lock

}  // namespace spate::preload
