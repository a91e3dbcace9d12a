// SPDX-License-Identifier: Apache-2.0
// SharedState: the state of an open file, in memory that is shared by all processes that have a descriptor of it. The
// memory is a memfd. The program has an O_PATH descriptor of it: nothing can be read or written through that, but the
// kernel duplicates it, passes it on by fork and exec, and closes it.
//
// A process that has it mapped may have given up its user's rights since (setuid), and may write anything into it. So
// nothing in it is trusted: there is no pointer in it, its size is sealed (broker/memory.h), positions and flags may
// have any value, and the identity of the file counts only with the inode's seal, which only the user that owns the
// memfd can set.
#pragma once

#include <fcntl.h>

#include <cstring>
#include <memory>
#include <string>

#include "base/result.h"
#include "model/attributes.h"
#include "posix/open_file.h"
#include "preload/broker/memory.h"
#include "preload/turn.h"

namespace spate::preload {

/// Those flags of open(2) that F_SETFL can change, for all processes that have the file.
inline constexpr int kSettableFlags = O_APPEND | O_NONBLOCK | O_NOATIME | O_ASYNC | O_DIRECT;

struct SharedState {
  static constexpr std::uint64_t kMagic = 0x3365746174536653;  // changes with the layout of this struct
  std::uint64_t magic;
  // The file's identity; a process that gets a descriptor from another one reads it once.
  std::uint64_t handle;
  std::uint32_t type;   // FileType
  std::uint32_t fixed;  // the flags of open(2) that cannot change: all but kSettableFlags
  char prefix[256];     // of the file system
  char path[4096];      // as the program saw it at the open
  // Values that change.
  posix::Position position;
  TurnWord turn;                     // the process that uses the position
  std::atomic<std::uint32_t> flags;  // the present kSettableFlags
  // The state that spate-broker has of this open file. A flag is set before the broker is asked, and never cleared.
  static constexpr std::uint32_t kHeld = 1;          // it is open there
  static constexpr std::uint32_t kLocked = 2;        // flock, OFD locks
  static constexpr std::uint32_t kRecordLocked = 4;  // some process has had record locks through it
  static constexpr std::uint32_t kKnown = 8;         // the broker has been asked about it
  std::atomic<std::uint32_t> kept;
  std::atomic<std::uint64_t> locked_at;  // incarnation of the broker that has its locks; 0: none
  /// Which of this user's brokers has it (BrokerPlace::id); 0: no broker has been asked.
  std::atomic<std::uint64_t> broker;
};
static_assert(std::is_standard_layout_v<SharedState>);

/// The text in an array that another process may be changing, and that need not end with a NUL.
template <std::size_t kRoom>
std::string shared_text(const char (&room)[kRoom]) {
  std::string copy(room, kRoom);  // others cannot overwrite the NUL behind the copy
  copy.resize(std::strlen(copy.c_str()));
  return copy;
}

/// The mapped memory of one memfd.
///
/// Life cycle: create() or adopt() -> [keep_for_another() -> [keep_no_more()]] -> destroyed. The destructor unmaps the
/// memory. After keep_for_another() it keeps it for the next open file instead, because the kernel takes 100 us to make
/// one. Not thread-safe, except for the SharedState, which other processes change at any time.
class MappedState {
 public:
  /// The identity of the open file.
  struct FileIdentity {
    Handle handle;
    FileType type = FileType::kRegular;
    int flags = 0;  // of open(2)
    std::string prefix;
    std::string path;
  };
  /// Makes the memory, and a descriptor for the program in `descriptor` (O_CLOEXEC as in `flags`). On failure
  /// `descriptor` is -errno.
  static Result<std::unique_ptr<MappedState>> create(FileIdentity what, int& descriptor);
  /// Maps the memory of a descriptor that this program inherited or received. kInvalidArgument: the memory is not
  /// Spate's, it is another user's, or somebody has changed it without the right to.
  static Result<std::unique_ptr<MappedState>> adopt(int descriptor);
  ~MappedState();
  MappedState(const MappedState&) = delete;
  MappedState& operator=(const MappedState&) = delete;

  /// Takes over a hidden descriptor of the memory, which no other process has. The destructor then keeps the memory for
  /// another open file.
  void keep_for_another(int descriptor);
  /// Cancels keep_for_another(), because another process may have the memory.
  void keep_no_more();

  SharedState* operator->() { return memory_.state; }
  const FileIdentity& what() const { return what_; }
  /// Equal for two descriptors of the same open file.
  const MemoryIdentity& identity() const { return memory_.identity; }
  /// False: the memory belongs to another open file by now. The process that sent it to this one has released it since.
  bool is_still_ours() const { return memory_.state->handle == what_.handle.value; }

  /// Memory that is mapped.
  struct Memory {
    SharedState* state = nullptr;
    MemoryIdentity identity;
    uid_t owner = 0;
  };

 private:
  MappedState(const Memory& memory, FileIdentity what) : memory_(memory), what_(std::move(what)) {}
  const Memory memory_;
  const FileIdentity what_;  // a copy that no other process can change
  int spare_ = -1;           // see keep_for_another()
};

/// Call it in a child of fork(): the spares are the parent's.
void forget_spare_states();

}  // namespace spate::preload
