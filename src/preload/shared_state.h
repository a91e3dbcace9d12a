// SPDX-License-Identifier: Apache-2.0
// SharedState: what an open file is, in memory that all processes share that have a descriptor of it. It is a memfd;
// the program holds an O_PATH descriptor of it, through which nothing can be read or written, but which the kernel
// duplicates, passes on by fork and exec, and closes.
//
// A process that has it mapped may have given up its user's rights since (setuid), and may write anything into it. So
// nothing in it is believed: there is no pointer in it, its size is sealed (broker/memory.h), positions and flags are
// numbers that any value may stand in, and what the file *is* counts only with the seal that the inode has: only the
// user that owns the memfd can set that.
#pragma once

#include <fcntl.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "model/attributes.h"
#include "posix/open_file.h"
#include "preload/broker/memory.h"
#include "preload/turn.h"

namespace spate::preload {

/// What F_SETFL sets of the flags of open(2), for all processes that have the file.
inline constexpr int kSettableFlags = O_APPEND | O_NONBLOCK | O_NOATIME | O_ASYNC | O_DIRECT;

struct SharedState {
  static constexpr std::uint64_t kMagic = 0x3365746174536653;  // changes with the layout of this struct
  std::uint64_t magic;
  // What the file is; read once, by whoever gets a descriptor of it from another process.
  std::uint64_t handle;
  std::uint32_t type;   // FileType
  std::uint32_t fixed;  // flags of open(2) that do not change: all but kSettableFlags
  char prefix[256];     // of the file system
  char path[4096];      // as the program sees it, when it was opened
  // What changes.
  posix::Position position;
  TurnWord turn;                     // of whoever uses the position
  std::atomic<std::uint32_t> flags;  // kSettableFlags that are set
  // What spate-broker has of this open file: flags are set before it is asked, and never taken back.
  static constexpr std::uint32_t kHeld = 1;          // it is open there
  static constexpr std::uint32_t kLocked = 2;        // flock, OFD locks
  static constexpr std::uint32_t kRecordLocked = 4;  // some process has had record locks through it
  static constexpr std::uint32_t kKnown = 8;         // it has been asked about it
  std::atomic<std::uint32_t> kept;
  std::atomic<std::uint64_t> locked_at;  // incarnation of the broker that has its locks; 0: none
  std::atomic<std::uint64_t> broker;     // which of this user's brokers (BrokerPlace::id); 0: nobody has asked
};
static_assert(std::is_standard_layout_v<SharedState>);

/// The mapped memory of one memfd; unmapped with it, or kept for the next open file: the kernel takes 100 us to make
/// one.
class MappedState {
 public:
  /// What the open file is.
  struct What {
    Handle handle;
    FileType type = FileType::kRegular;
    int flags = 0;  // of open(2)
    std::string prefix;
    std::string path;
  };
  /// Makes one, with the descriptor for the program in `descriptor` (O_CLOEXEC as `flags` has it; -errno when
  /// it fails).
  static Result<std::unique_ptr<MappedState>> create(What what, int& descriptor);
  /// Maps what a descriptor stands for that this program was started with or was sent. kInvalidArgument: not one of
  /// Spate's, another user's, or changed by somebody who may not.
  static Result<std::unique_ptr<MappedState>> adopt(int descriptor);
  ~MappedState();
  MappedState(const MappedState&) = delete;
  MappedState& operator=(const MappedState&) = delete;

  /// A hidden descriptor of the memory, which no other process has: with it the memory is used again once this is gone.
  void keep_for_another(int descriptor);
  /// Not any more: another process may have it.
  void keep_no_more();

  SharedState* operator->() { return memory_.state; }
  const What& what() const { return what_; }
  /// Two descriptors of the same open file have the same.
  const MemoryIdentity& identity() const { return memory_.identity; }
  /// False: the memory is another open file's by now, because this process has it from one that has let go of it.
  bool is_still_ours() const { return memory_.state->handle == what_.handle.value; }

  /// Memory that is mapped.
  struct Memory {
    SharedState* state = nullptr;
    MemoryIdentity identity;
    uid_t owner = 0;
  };

 private:
  MappedState(const Memory& memory, What what) : memory_(memory), what_(std::move(what)) {}
  const Memory memory_;
  const What what_;  // a copy that nobody else can change
  int spare_ = -1;   // see keep_for_another()
};

/// In a child of fork(): what is kept is the parent's.
void forget_spare_states();

}  // namespace spate::preload
