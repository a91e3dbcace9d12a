/* SPDX-License-Identifier: Apache-2.0
 * Preloaded into servers by crash_files.py, to show that it finds lost writes: files whose path contains SPATE_NO_SYNC are not
 * synced. sync_file_range() is ignored for all files, since it makes nothing durable by itself. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int synced(int fd) {
  char link[64];
  char path[4096];
  const char* const without = getenv("SPATE_NO_SYNC");
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof(path) - 1);
  if (without == NULL || size < 0) return 1;
  path[size] = '\0';
  return strstr(path, without) == NULL;
}

int fsync(int fd) { return synced(fd) ? (int)syscall(SYS_fsync, fd) : 0; }

int fdatasync(int fd) { return synced(fd) ? (int)syscall(SYS_fdatasync, fd) : 0; }

int syncfs(int fd) { return synced(fd) ? (int)syscall(SYS_syncfs, fd) : 0; }

int sync_file_range(int fd, off64_t offset, off64_t count, unsigned flags) {
  (void)fd;
  (void)offset;
  (void)count;
  (void)flags;
  return 0;
}
