// SPDX-License-Identifier: Apache-2.0
// Which descriptor number of this process means which open file.
#pragma once

#include <fcntl.h>

#include <memory>
#include <mutex>
#include <optional>

#include "preload/mounts.h"
#include "preload/shared_state.h"

namespace spate::preload {

/// An open file as this process has it: several descriptors may mean one. Thread-safe.
class Description {
 public:
  /// `file` null: this process has it from another one.
  Description(Mount& mount, std::unique_ptr<MappedState> state, std::unique_ptr<posix::OpenFile> file);
  ~Description();
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  Mount& mount() { return mount_; }
  MappedState& state() { return *state_; }
  Handle handle() const { return state_->what().handle; }
  FileType type() const { return state_->what().type; }
  /// Access mode and status flags. The latter any process that has the file may set, and may set to anything.
  int flags() {
    const int settable = static_cast<int>((*state_)->flags.load()) & kSettableFlags;
    return (state_->what().flags & ~kSettableFlags) | settable;
  }
  const std::string& path() const { return state_->what().path; }
  bool is_place() { return type() == FileType::kDirectory || (flags() & O_PATH) != 0; }

  /// The open file, opened anew by this process where it has not done so: after fork, after exec. It stays until
  /// close(), with the flags of now.
  Result<posix::OpenFile*> file();
  /// Runs `make(posix::OpenFile&)`, which returns a Task<Result<T>>.
  template <typename Make>
  auto run(const Make& make) -> typename std::invoke_result_t<const Make&, posix::OpenFile&>::Value {
    auto open = file();
    if (!open) return std::move(open).error();
    posix::OpenFile& opened = **open;
    return mount_.run([&](posix::FileSystem&) { return make(opened); });
  }

  /// This process has opened it, and the servers know of that.
  bool is_open() const { return file_ != nullptr; }
  /// Other processes may have descriptors of it.
  bool may_be_shared() const { return shared_.load() || forks_before_ != front_forks(); }
  void note_shared() { shared_ = true; }

  /// Ends this process's open; a later file() opens anew.
  Result<void> close();
  /// In a child of fork().
  void forget();

  /// An entry that getdents64 had no more room for, and the position that it stands at.
  struct Pending {
    posix::DirectoryItem item;
    std::uint64_t position;
  };
  std::optional<Pending> pending;  // guarded by the Turn

  /// How many descriptors of this process mean it, as far as they are known.
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

/// The description behind a descriptor; null: none of Spate's. One that came from outside is adopted.
DescriptionRef description_of(int descriptor);
/// The same for one that this process has used or made; others are not adopted.
DescriptionRef known_description_of(int descriptor);
/// No other descriptor of this process than `descriptor` means what that one does.
bool is_last(int descriptor);
/// `descriptor`, just made, means `description`. Its number; one that is too high is closed and refused (-EMFILE).
long install(const DescriptionRef& description, int descriptor);
/// `descriptor` means `description` from now on (null: it is the kernel's). What it meant before.
DescriptionRef replace(int descriptor, DescriptionRef description);
/// Drops the use of a description by a descriptor that is gone; closes the file with the last one. True: it was.
Result<bool> release(DescriptionRef description);

/// The next number at or behind `from` that is a descriptor of Spate, or -1.
int next_descriptor(int from);

void forget_descriptors();

}  // namespace spate::preload
