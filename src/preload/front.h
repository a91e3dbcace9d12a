// SPDX-License-Identifier: Apache-2.0
// The interface between the halves of the preload library. The front is in every process from its start and is built
// without the C++ library. The back holds the client; the front loads it at the first path or descriptor of Spate.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spate::preload {

/// A system call that the C library is about to make. When the hook returns, the kernel gets these values.
struct Frame {
  long number;
  long word[6];  // arguments
  long result;   // as the kernel would return it, if the hook has made the call
};

/// The owner of a descriptor number.
enum Mark : std::uint8_t {
  kForeign = 0,  // the kernel's
  kOurs = 1,     // an open file of Spate
  kOwn = 2       // a socket or other descriptor of the client: the program must neither see nor close it
};

/// Descriptors with higher numbers are never files of Spate.
#ifdef SPATE_PRELOAD_DESCRIPTORS
constexpr int kMaxDescriptors = SPATE_PRELOAD_DESCRIPTORS;
#else
constexpr int kMaxDescriptors = 1 << 16;
#endif
constexpr int kMaxMounts = 8;

/// The place of a file system in the tree that the program sees.
struct MountPoint {
  char prefix[256];  // absolute, no trailing '/', never "/"
  std::size_t prefix_size;
  char config[4096];  // path of spate.toml or its folder; empty: SPATE_FS, or the file system started last
};

/// The state by which the front decides, before each system call, whether Spate handles it. Both halves write it. There
/// is one in each process.
struct FrontState {
  std::uint8_t marks[kMaxDescriptors];
  int special_descriptors;  // at least the number of marks other than kForeign
  MountPoint mounts[kMaxMounts];
  int mount_count;
  int umask;                    // set by the program; -1: the program has not set it
  std::uint32_t forks;          // how many processes were made with copies of this process's descriptors
  bool cwd_inside;              // the working directory is in a file system of Spate
  char cwd[4096];               // if cwd_inside: its path as the program sees it
  std::uint64_t cwd_handle;     // if cwd_inside: the directory's handle; the path may have changed since
  std::uint32_t* same_process;  // a SameProcess; the kernel clears the page in a child of fork()
};

/// Whether the back's state belongs to this process.
enum SameProcess : std::uint32_t {
  kForked = 0,      // a child of fork() has its parent's state
  kSame = 1,        // yes
  kForgetting = 2,  // a thread of the child is dropping the parent's state; the others wait
};

/// The state of one thread.
struct ThreadState {
  int inside;                  // > 0: the library itself is working; the hooks ignore its own system calls
  long vfork_parent;           // the process id of a thread that has called vfork() or the like, until it continues
  long fork_flags;             // flags of clone(2) for the fork() of a helper process (helper.h); 0: there is none
  std::uint64_t program_mask;  // while inside > 0: the signals that the program itself blocks
};

/// A result of the back: run the handlers of pending signals, then make the call again (the kernel's -ERESTARTSYS).
constexpr long kAgain = -512;

/// The functions of the front that the back may call.
struct Front {
  FrontState* state;
  ThreadState* (*thread)();
  /// Moves a descriptor of the library out of the program's way and marks it kOwn. Returns the new number, or -errno.
  int (*hide)(int descriptor);
  /// Duplicates a descriptor of the program to a number that is hidden in the same way. -1: no number is free.
  int (*keep)(int descriptor);
  /// Whether this process is a child that shares its parent's memory and will call exec.
  bool (*in_vfork_child)();
};

/// The back's entry point. True: it has made the call and set `result`. False: the kernel shall make it.
using Take = bool (*)(Frame* frame);
constexpr const char* kBackEntry = "spate_preload_back";
using BackEntry = Take (*)(const Front* front);

/// The name of the memfd behind an open file begins with this; /proc/self/fd shows it as "/memfd:spate:...".
constexpr const char kDescriptorName[] = "spate:";
/// If the working directory of a process is in Spate, the kernel's working directory is a removed one. It is named like
/// the path, below a directory whose name is this text, a random number, '-' and the handle. So the name survives fork
/// and exec, and relative paths that reach the kernel find nothing.
constexpr const char kCwdName[] = "/.spate-cwd-";
constexpr const char kCwdEnd[] = " (deleted)";

}  // namespace spate::preload
