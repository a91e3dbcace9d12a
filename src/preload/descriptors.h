// SPDX-License-Identifier: Apache-2.0
// Maps descriptor numbers of this process to open files.
#pragma once

#include <fcntl.h>

#include <memory>
#include <mutex>
#include <optional>

#include "preload/mounts.h"
#include "preload/shared_state.h"

namespace spate::preload {

/// This process's view of an open file. Several descriptors may refer to it, and share it (DescriptionRef).
///
/// Life cycle: made at an open, or when a descriptor from another process is first used -> file(), close(), in any
/// order and number -> destroyed with its last descriptor and call. The destructor waits until the servers have closed
/// the file, if this process has it open. In a child of fork(): forget(), before any other call. The mount outlives it.
/// Thread-safe, except for forget().
class Description {
 public:
  /// `file` is null if this process has received the open file from another one.
  Description(Mount& mount, std::unique_ptr<MappedState> state, std::unique_ptr<posix::OpenFile> file);
  ~Description();
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  Mount& mount() { return mount_; }
  MappedState& state() { return *state_; }
  Handle handle() const { return state_->what().handle; }
  FileType type() const { return state_->what().type; }
  /// Access mode and status flags. Any process that has the file may set the status flags to any value.
  int flags() {
    const int settable = static_cast<int>((*state_)->flags.load()) & kSettableFlags;
    return (state_->what().flags & ~kSettableFlags) | settable;
  }
  const std::string& path() const { return state_->what().path; }
  bool is_place() { return type() == FileType::kDirectory || (flags() & O_PATH) != 0; }

  /// The open file. After fork or exec, the first call opens it again with the present flags. It stays until close().
  Result<posix::OpenFile*> file();
  /// Runs `make(posix::OpenFile&)`, which returns a Task<Result<T>>.
  template <typename Make>
  auto run(const Make& make) -> typename std::invoke_result_t<const Make&, posix::OpenFile&>::Value {
    SPATE_TRY(auto open, file());
    posix::OpenFile& opened = *open;
    return mount_.run([&](posix::FileSystem&) { return make(opened); });
  }

  /// Whether this process has the file open at the servers.
  bool is_open() const { return file_ != nullptr; }
  /// Whether other processes may have descriptors of it.
  bool may_be_shared() const { return shared_.load() || forks_before_ != front_forks(); }
  void note_shared() { shared_ = true; }

  /// Ends this process's open. A later file() opens the file again.
  Result<void> close();
  /// Call it in a child of fork().
  void forget();

  /// An entry for which getdents64 had no room left, and its position.
  struct Pending {
    posix::DirectoryItem item;
    std::uint64_t position;
  };
  std::optional<Pending> pending;  // guarded by the Turn

  /// The number of known descriptors of this process that refer to this object.
  std::atomic<int> numbers{0};

 private:
  static std::uint32_t front_forks();
  Mount& mount_;
  const std::unique_ptr<MappedState> state_;
  std::unique_ptr<std::mutex> opening_ = std::make_unique<std::mutex>();
  std::unique_ptr<posix::OpenFile> file_;
  const std::uint32_t forks_before_;
  std::atomic<bool> shared_;
};
using DescriptionRef = std::shared_ptr<Description>;

/// The description behind a descriptor; null if the file is not Spate's. Adopts a descriptor that another process has
/// sent or left.
DescriptionRef description_of(int descriptor);
/// The description behind a path below /proc that leads to a descriptor of any process or thread. Null if the file is
/// not Spate's.
DescriptionRef description_behind(const std::string& path);
/// The description of a descriptor that this process has already used or made; null for another one.
DescriptionRef known_description_of(int descriptor);
/// Whether no other descriptor of this process refers to the same description.
bool is_last(int descriptor);
/// Makes the new `descriptor` refer to `description`. Returns its number. Closes a descriptor whose number is too high,
/// and returns -EMFILE.
long install(const DescriptionRef& description, int descriptor);
/// Makes `descriptor` refer to `description` from now on (null: to the kernel's file). Returns its earlier description.
DescriptionRef replace(int descriptor, DescriptionRef description);
/// Drops the reference of a closed descriptor. The last reference closes the file. True: it was the last.
Result<bool> release(DescriptionRef description);

/// The next number, from `from` on, that is a descriptor of Spate; -1: there is none.
int next_descriptor(int from);

void forget_descriptors();

}  // namespace spate::preload
