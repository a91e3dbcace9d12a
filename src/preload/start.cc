// SPDX-License-Identifier: Apache-2.0
// Runs at the start of every program. It starts no thread and no connection, and makes only some system calls.
#include "preload/start.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "preload/filter.h"
#include "preload/patch.h"
#include "preload/raw.h"

namespace spate::preload {

void complain(const char* text) {
  const char* const parts[] = {"spate-preload: ", text == nullptr ? "?" : text, "\n"};
  for (const char* part : parts) raw(SYS_write, 2, part, strlen(part));
}

const char* back_library() {
  static char path[4096];
  constexpr char kName[] = "libspate-preload-client.so";
  Dl_info own{};
  if (path[0] != '\0' || dladdr(reinterpret_cast<void*>(&back_library), &own) == 0) return path;
  const char* const slash = strrchr(own.dli_fname, '/');
  const size_t folder = slash == nullptr ? 0 : static_cast<size_t>(slash - own.dli_fname) + 1;
  if (folder + sizeof kName <= sizeof path) {
    memcpy(path, own.dli_fname, folder);
    memcpy(path + folder, kName, sizeof kName);
  }
  return path;
}

namespace {

bool is_ours(long directory, const char* name) {
  char target[64];
  const long size = raw(SYS_readlinkat, directory, name, target, sizeof target - 1);
  if (failed(size)) return false;
  target[size] = '\0';
  constexpr char kMemfd[] = "/memfd:";
  return strncmp(target, kMemfd, sizeof kMemfd - 1) == 0 &&
         strncmp(target + sizeof kMemfd - 1, kDescriptorName, sizeof kDescriptorName - 1) == 0;
}

}  // namespace

void note_descriptor(int descriptor) {
  char name[32] = "/proc/self/fd/";
  char* end = name + strlen(name);
  int place = 1;
  while (descriptor / place >= 10) place *= 10;
  for (; place > 0; place /= 10) *end++ = static_cast<char>('0' + descriptor / place % 10);
  if (descriptor < 0 || descriptor >= kMaxDescriptors || front_state.marks[descriptor] != kForeign ||
      !is_ours(AT_FDCWD, name))
    return;
  front_state.marks[descriptor] = kOurs;
  __atomic_fetch_add(&front_state.special_descriptors, 1, __ATOMIC_RELAXED);
}

namespace {

/// Whether the prefix is absolute, is not the root, and has no empty, "." or ".." component and no '/' at the end.
bool good_prefix(const char* text, size_t size) {
  if (size < 2 || size >= sizeof(MountPoint::prefix) || text[0] != '/' || text[size - 1] == '/') return false;
  for (size_t i = 0; i + 1 < size; ++i) {
    if (text[i] == '/' && (text[i + 1] == '/' || text[i + 1] == '.')) return false;
  }
  return true;
}

/// Adds one mount, given as "PREFIX" or "PREFIX=CONFIG".
bool add_mount(const char* text, size_t size) {
  const auto* const equals = static_cast<const char*>(memchr(text, '=', size));
  const size_t prefix = equals == nullptr ? size : static_cast<size_t>(equals - text);
  const size_t config = equals == nullptr ? 0 : size - prefix - 1;
  if (!good_prefix(text, prefix) || config >= sizeof(MountPoint::config) || front_state.mount_count == kMaxMounts)
    return false;
  MountPoint& mount = front_state.mounts[front_state.mount_count];
  memcpy(mount.prefix, text, prefix);
  mount.prefix_size = prefix;
  if (config > 0) memcpy(mount.config, equals + 1, config);
  ++front_state.mount_count;
  return true;
}

void read_prefixes() {
  const char* list = getenv("SPATE_PREFIX");
  if (list == nullptr || *list == '\0') list = "/spate";
  while (*list != '\0') {
    const size_t size = strcspn(list, ":");
    if (size > 0 && !add_mount(list, size))
      complain(
          "SPATE_PREFIX: each of at most 8 is PREFIX or PREFIX=CONFIG, PREFIX an absolute path without '.' components");
    list += size + (list[size] == ':' ? 1 : 0);
  }
}

/// Finds descriptors of Spate that this program has inherited. The back opens their files when they are used.
void find_descriptors() {
  const long directory = raw(SYS_open, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (failed(directory)) return;
  alignas(8) char buffer[4096];
  for (long size = 0; (size = raw(SYS_getdents64, directory, buffer, sizeof buffer)) > 0;) {
    for (long at = 0; at < size;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(buffer + at);
      at += entry->d_reclen;
      const long number = strtol(entry->d_name, nullptr, 10);
      if (entry->d_name[0] == '.' || number >= kMaxDescriptors || !is_ours(directory, entry->d_name)) continue;
      front_state.marks[number] = kOurs;
      ++front_state.special_descriptors;
    }
  }
  raw(SYS_close, directory);
}

/// Checks that a program of this user has made the folder, because another user may give a folder any name.
bool is_own_working_directory() {
  struct stat st;
  return !failed(raw(SYS_stat, ".", &st)) && st.st_uid == static_cast<uid_t>(raw(SYS_geteuid)) &&
         (st.st_mode & 0077U) == 0;
}

/// See kCwdName.
void find_working_directory() {
  char* const path = front_state.cwd;
  const long size = raw(SYS_readlink, "/proc/self/cwd", path, sizeof front_state.cwd - 1);
  if (failed(size)) return;
  path[size] = '\0';
  constexpr long kEnd = sizeof kCwdEnd - 1;
  char* const marker = strstr(path, kCwdName);
  char* const inside = marker == nullptr ? nullptr : strchr(marker + 1, '/');
  if (inside == nullptr || size < kEnd || strcmp(path + size - kEnd, kCwdEnd) != 0 || !is_own_working_directory())
    return;
  const char* const handle = strchr(marker + sizeof kCwdName - 1, '-');
  if (handle == nullptr || handle > inside) return;
  front_state.cwd_handle = strtoull(handle + 1, nullptr, 10);
  path[size - kEnd] = '\0';
  memmove(path, inside, strlen(inside) + 1);
  front_state.cwd_inside = true;
}

__attribute__((constructor)) void start() {
  front_state.umask = -1;
  read_prefixes();
  if (front_state.mount_count == 0) return;
  const long page = raw(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (failed(page) || failed(raw(SYS_madvise, page, 4096, MADV_WIPEONFORK)))
    return complain("no memory that is wiped by fork (Linux 4.14)");
  front_state.same_process = reinterpret_cast<uint32_t*>(page);  // NOLINT(performance-no-int-to-ptr)
  *front_state.same_process = kSame;
  find_descriptors();
  find_working_directory();
  if (const char* const why = patch_c_library()) {
    front_state.mount_count = 0;
    complain(why);
  }
}

}  // namespace
}  // namespace spate::preload
