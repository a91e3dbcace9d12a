// SPDX-License-Identifier: Apache-2.0
// The interface of the two halves of the preload library. The front is in every process from its start and is built
// without the C++ library. The back holds the client; the front loads it at the first path or descriptor of Spate.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spate::preload {

/// A system call that the C library is about to make. The kernel gets the values that stand here when the hook returns.
struct Frame {
  long number;
  long word[6];  // arguments
  long result;   // as the kernel would give it; when the call was taken over
};

/// What a descriptor number is to this library.
enum Mark : std::uint8_t {
  kForeign = 0,  // the kernel's affair
  kOurs = 1,     // an open file of Spate
  kOwn = 2       // the client's own: sockets and the like, which the program neither sees nor closes
};

/// Higher numbers are never files of Spate.
#ifdef SPATE_PRELOAD_DESCRIPTORS
constexpr int kMaxDescriptors = SPATE_PRELOAD_DESCRIPTORS;
#else
constexpr int kMaxDescriptors = 1 << 16;
#endif
constexpr int kMaxMounts = 8;

/// Where a file system stands in the tree that the program sees.
struct MountPoint {
  char prefix[256];  // absolute, no trailing '/', never "/"
  std::size_t prefix_size;
  char config[4096];  // of spate.toml or its folder; empty: SPATE_FS, or the one started last
};

/// The state that decides, before each system call, whether Spate handles it. Both halves write it. One for each
/// process.
struct FrontState {
  std::uint8_t marks[kMaxDescriptors];
  int special_descriptors;  // how many marks are not kForeign (may be too high)
  MountPoint mounts[kMaxMounts];
  int mount_count;
  int umask;            // as the program has set it; -1: it has not
  std::uint32_t forks;  // how often a process was made that has copies of this one's descriptors
  bool cwd_inside;      // the working directory is in a file system of Spate
  char cwd[4096];       // its path as the program sees it, when it is
  /// 0 in a child of fork() until the back has noticed: the page is wiped there.
  std::uint32_t* same_process;
};

/// Per thread.
struct ThreadState {
  int inside;                  // > 0: the library itself is at work; its own system calls are nobody's affair
  long vfork_parent;           // the process id of a thread that called vfork() or the like, until it goes on
  long fork_flags;             // of clone(2): added to those of the library's own next fork()
  std::uint64_t program_mask;  // while inside: the signals that the program itself holds back
};

/// A result of the back: make the call again after the handlers of the pending signals have run (-ERESTARTSYS of the
/// kernel).
constexpr long kAgain = -512;

/// The functions of the front that the back may call.
struct Front {
  FrontState* state;
  ThreadState* (*thread)();
  /// Moves a descriptor that the library itself has made out of the program's way and marks it kOwn. The new number, or
  /// -errno.
  int (*hide)(int descriptor);
  /// Another number for what a descriptor of the program's stands for, hidden likewise; -1: there is no room.
  int (*keep)(int descriptor);
  /// This is a child that shares its parent's memory and will call exec.
  bool (*in_vfork_child)();
};

/// The back's entry point. It does the call and sets `result` (true), or leaves the call to the kernel (false).
using Take = bool (*)(Frame* frame);
constexpr const char* kBackEntry = "spate_preload_back";
using BackEntry = Take (*)(const Front* front);

/// The name of the memfd behind an open file begins with this; /proc/self/fd shows it as "/memfd:spate:...".
constexpr const char kDescriptorName[] = "spate:";
/// The kernel's working directory of a process whose own is in Spate: a removed directory below one whose name begins
/// so, named like the path. Thus it passes through fork and exec, and relative paths that reach the kernel find
/// nothing.
constexpr const char kCwdName[] = "/.spate-cwd-";
constexpr const char kCwdEnd[] = " (deleted)";

}  // namespace spate::preload
