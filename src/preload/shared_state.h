// SPDX-License-Identifier: Apache-2.0
// SharedState: what an open file is, in memory that all processes share that have a descriptor of it. It is a memfd;
// the program holds an O_PATH descriptor of it, through which nothing can be read or written, but which the kernel
// duplicates, passes on by fork and exec, and closes.
#pragma once

#include <pthread.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "model/attributes.h"
#include "posix/open_file.h"

namespace spate::preload {

struct SharedState {
  static constexpr std::uint64_t kMagic = 0x3265746174536653;  // changes with the layout of this struct
  std::uint64_t magic;
  std::uint64_t handle;
  std::atomic<std::uint32_t> flags;  // of open(2): access mode and status flags
  std::uint32_t type;                // FileType
  posix::Position position;
  pthread_mutex_t turn;  // robust: of whoever uses the position, or sets `holder`
  // What spate-holder has of this open file: flags are set before it is asked, and never taken back.
  static constexpr std::uint32_t kHeld = 1;          // it is open there
  static constexpr std::uint32_t kLocked = 2;        // flock, OFD locks
  static constexpr std::uint32_t kRecordLocked = 4;  // some process has had record locks through it
  static constexpr std::uint32_t kKnown = 8;         // it has been asked about it
  std::atomic<std::uint32_t> kept;
  std::atomic<std::uint64_t> locked_at;  // incarnation of the holder that has its locks; 0: none
  char holder[112];                      // its address; empty: nobody has asked
  char prefix[256];                      // of the file system
  char path[4096];                       // as the program sees it, when it was opened
};
static_assert(std::is_standard_layout_v<SharedState>);

/// The mapped memory of one memfd; unmapped with it, or kept for the next open file: the kernel takes 100 us to make
/// one.
class MappedState {
 public:
  struct New {
    Handle handle;
    FileType type;
    int flags;
    std::string prefix;
    std::string path;
  };
  /// Makes one, with the descriptor for the program in `descriptor` (O_CLOEXEC as `flags` has it; -errno when
  /// it fails).
  static Result<std::unique_ptr<MappedState>> create(const New& what, int& descriptor);
  /// Maps what a descriptor stands for that this program was started with or was sent. kInvalidArgument: not one of
  /// Spate's.
  static Result<std::unique_ptr<MappedState>> adopt(int descriptor);
  ~MappedState();
  MappedState(const MappedState&) = delete;
  MappedState& operator=(const MappedState&) = delete;

  /// A hidden descriptor of the memory, which no other process has: with it the memory is used again once this is gone.
  void keep_for_another(int descriptor);
  /// Not any more: another process may have it.
  void keep_no_more();

  SharedState* operator->() { return state_; }
  /// The memfd's inode number: two descriptors of the same open file have the same.
  std::uint64_t identity() const { return identity_; }

 private:
  MappedState(SharedState* state, std::uint64_t identity) : state_(state), identity_(identity) {}
  static Result<std::unique_ptr<MappedState>> map(long descriptor);
  static Result<std::unique_ptr<MappedState>> make(long& path_only);
  SharedState* const state_;
  const std::uint64_t identity_;
  int spare_ = -1;  // see keep_for_another()
};

/// In a child of fork(): what is kept is the parent's.
void forget_spare_states();

/// The inode number behind any descriptor; 0 when there is none.
std::uint64_t identity_of(int descriptor);

/// Holds SharedState::turn, over all processes; a holder that died gives it back.
class Turn {
 public:
  explicit Turn(MappedState& state);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  pthread_mutex_t* mutex_;
};

}  // namespace spate::preload
