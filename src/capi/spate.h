/* SPDX-License-Identifier: Apache-2.0 */
/* The C API of Spate (docs/c-api.md): a parallel file system without a mount.
 *
 * Errors. A function that can fail returns a negative errno (-ENOENT) and does not change errno itself.
 * spate_last_error() then returns a sentence for a person, which names the server or the file concerned.
 *
 * Paths begin at the file system's root, with or without a leading '/'; absolute symbolic links begin there, too. A
 * name is at most 255 bytes, any but '/' and NUL; a path is at most 4095 bytes.
 *
 * Threads. Any thread may call any function, on any handle, at any time; calls on one handle run side by side. Do not
 * close a handle while a call on it is running. The library has one thread of its own, which keeps the session alive
 * (see SPATE_PROGRESS_THREAD), and handles no signals. After fork() the child cannot use the parent's handles; it may
 * connect anew.
 *
 * Memory that is given to a call must stay until the call returns. Memory that is given to a ..._start call must stay
 * until its operation has ended.
 */
#ifndef SPATE_H
#define SPATE_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(SPATE_BUILDING_LIBRARY)
#define SPATE_API __attribute__((visibility("default")))
#else
#define SPATE_API
#endif

/* A file system to which this process is connected. */
typedef struct spate_fs spate_fs;
/* An open file or directory. */
typedef struct spate_file spate_file;
/* An operation that was started and has not been waited for. */
typedef struct spate_op spate_op;

/* The version of the library that is running, such as "0.1.0". */
SPATE_API const char* spate_version(void);

/* Why this thread's last failed call failed, in one sentence. Valid until the thread's next call.
 */
SPATE_API const char* spate_last_error(void);

/* ---- Connecting ---- */

enum spate_flags {
  /* A thread of the library drives started operations all the time. Without it they progress only while some thread is
   * inside a call. With it a blocking call costs two more thread switches. */
  SPATE_PROGRESS_THREAD = 1
};

struct spate_options {
  size_t size;                 /* sizeof(struct spate_options): lets later versions add members at the end */
  unsigned flags;              /* enum spate_flags */
  mode_t umask;                /* bits removed from the modes of new objects; the process's own umask has no effect */
  const char* const* settings; /* "section.key=value" each, ended by NULL: they override spate.toml; may be NULL */
};

/* Uses a file system. `where`: its spate.toml, or the folder that holds one; NULL: the environment's SPATE_FS, else the
 * file system that `spate up` started last. `options` may be NULL: all zero. Reads the configuration and the key
 * (-EACCES when others may read it); the servers are asked by the first call that needs them. On failure *fs is NULL.
 */
SPATE_API int spate_connect(spate_fs** fs, const char* where, const struct spate_options* options);

/* Ends the session and frees the handle. -EBUSY, and nothing happens, while files are open, started operations have not
 * been waited for, or calls of other threads are running. If a program ends without this call, its leases and locks
 * block others until they expire: leases on attributes (if client.attribute_cache is "all") for a quarter of
 * meta.session_lease, locks and open files for all of it. */
SPATE_API int spate_disconnect(spate_fs* fs);

/* ---- Files ---- */

/* How a file is spread over targets (storage devices of servers). 0 or NULL in a member: the directory's value, or else
 * that of the file system. */
struct spate_layout {
  uint64_t strip_bytes;  /* one target's contiguous piece; 4 KiB .. 4 GiB */
  uint32_t target_count; /* targets that the file is spread over */
  uint32_t first_target; /* the first one's number (`spate df --json`) */
  /* Which target holds which byte: "simple_stripe", "basic", "varstrip:64 KiB,1 MiB", "twod_stripe:2,16"; see `spate
   * setstripe --help`. A value from spate_get_layout() is valid until the file is closed. */
  const char* distribution;
};

/* As open(2). `flags`: an access mode with O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY, O_NOFOLLOW, O_PATH, O_SYNC,
 * O_DSYNC, O_TMPFILE; O_DIRECT, O_NONBLOCK and O_CLOEXEC have no effect. A directory is opened to be listed, or as a
 * base for spate_openat(). `mode` counts with O_CREAT. On failure *file is NULL. */
SPATE_API int spate_open(spate_fs* fs, const char* path, int flags, mode_t mode, spate_file** file);
/* As spate_open(), below an open directory. */
SPATE_API int spate_openat(spate_file* directory, const char* path, int flags, mode_t mode, spate_file** file);
/* As spate_open(), with a layout for a file that it creates. */
SPATE_API int spate_open_layout(spate_fs* fs, const char* path, int flags, mode_t mode,
                                const struct spate_layout* layout, spate_file** file);
/* Opens the object itself, by the st_ino that spate_fstat() has given to a program that has it open, this one or
 * another of the same file system. No path is walked, and the object may have been renamed. So one of many processes
 * can walk the path and pass the number on. The object's own mode decides, not those of the folders above it. -ESTALE:
 * the object does not exist any more. O_CREAT and O_EXCL are refused. */
SPATE_API int spate_open_inode(spate_fs* fs, uint64_t inode, int flags, spate_file** file);
/* Ends the open and frees the handle, also on failure. -EIO: data that was written and not synced may be lost, because
 * a server restarted. Only for -EBUSY the file stays open: operations on it have not been waited for. */
SPATE_API int spate_close(spate_file* file);

/* Read and write at an offset: preadv(2), pwritev(2). Reads are short only at the end of the file; holes read as zeros.
 * A write writes everything or fails; after a failure a part may have been written. Disjoint writes of any clients
 * never affect each other. */
SPATE_API ssize_t spate_pread(spate_file* file, void* buffer, size_t size, off_t offset);
SPATE_API ssize_t spate_pwrite(spate_file* file, const void* buffer, size_t size, off_t offset);
SPATE_API ssize_t spate_preadv(spate_file* file, const struct iovec* memory, int count, off_t offset);
SPATE_API ssize_t spate_pwritev(spate_file* file, const struct iovec* memory, int count, off_t offset);

/* Read and write at the file's position, and move it. With O_APPEND writes go to the end of the file, and the appends
 * of all clients follow one another. */
SPATE_API ssize_t spate_read(spate_file* file, void* buffer, size_t size);
SPATE_API ssize_t spate_write(spate_file* file, const void* buffer, size_t size);
SPATE_API ssize_t spate_readv(spate_file* file, const struct iovec* memory, int count);
SPATE_API ssize_t spate_writev(spate_file* file, const struct iovec* memory, int count);
/* lseek(2), with SEEK_DATA and SEEK_HOLE. Written bytes are never in a hole. A block that was written in part counts as
 * data. */
SPATE_API off_t spate_lseek(spate_file* file, off_t offset, int whence);
/* copy_file_range(2) of Linux, between files of the same file system. A NULL offset means that file's position. If both
 * files have the same layout, the io servers copy, and no byte passes through this program. Returns the number of bytes
 * copied; 0 at the end of `from`. */
SPATE_API ssize_t spate_copy_file_range(spate_file* from, off_t* from_offset, spate_file* to, off_t* to_offset,
                                        size_t size, unsigned flags);

/* List I/O: reads or writes pieces of the file, in any order, as one stream with pieces of memory. Some thousand pieces
 * cost one request to each server (PVFS's partitioned file interface). Pieces of one write must not overlap. A read
 * ends at the first byte of the stream that lies beyond the end of the file. */
struct spate_range {
  uint64_t offset;
  uint64_t size;
};
SPATE_API ssize_t spate_read_list(spate_file* file, const struct spate_range* ranges, size_t range_count,
                                  const struct iovec* memory, int memory_count);
SPATE_API ssize_t spate_write_list(spate_file* file, const struct spate_range* ranges, size_t range_count,
                                   const struct iovec* memory, int memory_count);

/* Strided I/O: blocks at regular distances, in up to 8 nested levels, the outermost first. Each level repeats the
 * levels inside it `count` times, `stride` bytes apart. {0, 4, 2, {{3, 100}, {2, 10}}}: 4 bytes at each of 0, 10, 100,
 * 110, 200 and 210. */
enum { SPATE_MAX_LEVELS = 8 };
struct spate_level {
  uint64_t count;
  uint64_t stride;
};
struct spate_strided {
  uint64_t offset;     /* of the first block */
  uint64_t block_size; /* bytes */
  size_t level_count;  /* 0 .. SPATE_MAX_LEVELS */
  struct spate_level levels[SPATE_MAX_LEVELS];
};
SPATE_API ssize_t spate_read_strided(spate_file* file, const struct spate_strided* what, const struct iovec* memory,
                                     int memory_count);
SPATE_API ssize_t spate_write_strided(spate_file* file, const struct spate_strided* what, const struct iovec* memory,
                                      int memory_count);

/* A window of a strided pattern: `size` bytes of its stream from byte `first` on. The pattern may be as large as a file
 * (an array of records, of which each process has a column). A window is at most 1 TiB. */
SPATE_API ssize_t spate_read_window(spate_file* file, const struct spate_strided* what, uint64_t first, uint64_t size,
                                    const struct iovec* memory, int memory_count);
SPATE_API ssize_t spate_write_window(spate_file* file, const struct spate_strided* what, uint64_t first, uint64_t size,
                                     const struct iovec* memory, int memory_count);

/* Both sides have patterns: a window of the file's pattern, and as many bytes of the memory's, whose offset and strides
 * count from `base` (at most 4194304 pieces of memory). So one call moves a box of an array with ghost cells to a box
 * of a larger array in the file. */
struct spate_window {
  struct spate_strided pattern;
  uint64_t first; /* byte of its stream */
  uint64_t size;
};
SPATE_API ssize_t spate_read_shaped(spate_file* file, const struct spate_window* what, void* base,
                                    const struct spate_strided* memory);
SPATE_API ssize_t spate_write_shaped(spate_file* file, const struct spate_window* what, const void* base,
                                     const struct spate_strided* memory);

/* Everything that was written before through this handle, and the file's entry and inode, then survive a crash of any
 * machine. -EIO, once: an earlier write may be lost, because its server restarted. */
SPATE_API int spate_fsync(spate_file* file);
SPATE_API int spate_ftruncate(spate_file* file, off_t size);
/* Locks of this handle, which hold across all clients. spate_flock: flock(2) with LOCK_SH, LOCK_EX or LOCK_UN, perhaps
 * with LOCK_NB. spate_lock: fcntl(2) with F_OFD_SETLK, F_OFD_SETLKW or F_OFD_GETLK. -EAGAIN: another owner has the
 * lock. Locks end with the handle, and with the program. -EIO: a lock was lost because this client was cut off for so
 * long that others got it; close the file. */
SPATE_API int spate_flock(spate_file* file, int operation);
SPATE_API int spate_lock(spate_file* file, int cmd, struct flock* lock);
/* fallocate(2): mode 0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE. */
SPATE_API int spate_fallocate(spate_file* file, int mode, off_t offset, off_t size);
/* st_dev is 0 and st_ino the object's handle, which is never used again in this file system. */
SPATE_API int spate_fstat(spate_file* file, struct stat* st);
SPATE_API int spate_fchmod(spate_file* file, mode_t mode);
SPATE_API int spate_fchown(spate_file* file, uid_t uid, gid_t gid);
SPATE_API int spate_futimens(spate_file* file, const struct timespec times[2]);
/* The layout that the file got at its creation. */
SPATE_API int spate_get_layout(spate_file* file, struct spate_layout* layout);

/* ---- Names ---- Each function has the name of its system call. With AT_SYMLINK_NOFOLLOW in `flags` it does not follow
 * a link at the path's end. */

SPATE_API int spate_stat(spate_fs* fs, const char* path, struct stat* st);
SPATE_API int spate_lstat(spate_fs* fs, const char* path, struct stat* st);
SPATE_API int spate_fstatat(spate_file* directory, const char* path, struct stat* st, int flags);
SPATE_API int spate_access(spate_fs* fs, const char* path, int mode);
SPATE_API int spate_mkdir(spate_fs* fs, const char* path, mode_t mode);
SPATE_API int spate_rmdir(spate_fs* fs, const char* path);
SPATE_API int spate_unlink(spate_fs* fs, const char* path);
/* flags: 0, or AT_REMOVEDIR for an empty directory. */
SPATE_API int spate_unlinkat(spate_file* directory, const char* path, int flags);
SPATE_API int spate_symlink(spate_fs* fs, const char* target, const char* path);
/* Stores at most `size` bytes of the link's target, without a NUL. Returns the length of the whole target. */
SPATE_API ssize_t spate_readlink(spate_fs* fs, const char* path, char* buffer, size_t size);
SPATE_API int spate_link(spate_fs* fs, const char* existing, const char* path);
/* flags: 0, RENAME_NOREPLACE (1), RENAME_EXCHANGE (2). */
SPATE_API int spate_rename(spate_fs* fs, const char* from, const char* to, unsigned flags);
SPATE_API int spate_truncate(spate_fs* fs, const char* path, off_t size);
SPATE_API int spate_chmod(spate_fs* fs, const char* path, mode_t mode);
SPATE_API int spate_chown(spate_fs* fs, const char* path, uid_t uid, gid_t gid, int flags);
SPATE_API int spate_utimens(spate_fs* fs, const char* path, const struct timespec times[2], int flags);
SPATE_API int spate_mknod(spate_fs* fs, const char* path, mode_t mode, dev_t device);
/* The sums over all servers. A device that several of them share counts once. */
SPATE_API int spate_statvfs(spate_fs* fs, struct statvfs* st);
/* All name-space changes that were acknowledged before the call survive a crash of the meta server's machine. */
SPATE_API int spate_sync(spate_fs* fs);

/* Extended attributes: user.*, for uid 0 trusted.*, and access control lists (system.posix_acl_access,
 * system.posix_acl_default). user.spate.* sets and shows layouts. With size 0 the functions return the size that is
 * needed. -ERANGE: `size` is too small. A list has names, each ended by a NUL. */
SPATE_API ssize_t spate_getxattr(spate_fs* fs, const char* path, const char* name, void* value, size_t size, int flags);
/* flags: XATTR_CREATE, XATTR_REPLACE. */
SPATE_API int spate_setxattr(spate_fs* fs, const char* path, const char* name, const void* value, size_t size,
                             int flags);
SPATE_API ssize_t spate_listxattr(spate_fs* fs, const char* path, char* list, size_t size, int flags);
SPATE_API int spate_removexattr(spate_fs* fs, const char* path, const char* name);

/* ---- Directories ---- */

struct spate_dirent {
  uint64_t handle;    /* as st_ino; 0 when not known */
  uint64_t next;      /* for spate_lseek(): where the listing continues after this entry */
  unsigned char type; /* DT_REG, DT_DIR, ... of <dirent.h> */
  char name[256];
};
/* Reads the next entry of a directory, including "." and "..". Returns 1, or 0 at the end. An entry that is created or
 * removed meanwhile may be returned or not; every other entry is returned once. spate_lseek(directory, 0, SEEK_SET)
 * starts again. */
SPATE_API int spate_readdir(spate_file* directory, struct spate_dirent* entry);
/* Reads many entries at once, with attributes in the same request: at most `count` entries and, if `st` is not NULL, as
 * many stats (st_nlink 0: unknown; ask spate_fstatat()). Returns the number of entries; 0 at the end. */
SPATE_API ssize_t spate_readdir_many(spate_file* directory, struct spate_dirent* entries, struct stat* st,
                                     size_t count);

/* ---- Operations that are started now and waited for later ---- Each start function does what the blocking function of
 * its name does, and puts the operation into *op. spate_wait() or spate_test() then returns the result or error of the
 * blocking call. If the start itself fails (-EINVAL, -ENOMEM), *op is NULL. Paths, lists and descriptions are copied;
 * buffers, and places for results, must stay until the operation has ended. Any number of operations may be in flight,
 * in no order among each other. */

SPATE_API int spate_open_start(spate_fs* fs, const char* path, int flags, mode_t mode, spate_file** file,
                               spate_op** op);
SPATE_API int spate_close_start(spate_file* file, spate_op** op);
SPATE_API int spate_pread_start(spate_file* file, void* buffer, size_t size, off_t offset, spate_op** op);
SPATE_API int spate_pwrite_start(spate_file* file, const void* buffer, size_t size, off_t offset, spate_op** op);
SPATE_API int spate_preadv_start(spate_file* file, const struct iovec* memory, int count, off_t offset, spate_op** op);
SPATE_API int spate_pwritev_start(spate_file* file, const struct iovec* memory, int count, off_t offset, spate_op** op);
SPATE_API int spate_read_list_start(spate_file* file, const struct spate_range* ranges, size_t range_count,
                                    const struct iovec* memory, int memory_count, spate_op** op);
SPATE_API int spate_write_list_start(spate_file* file, const struct spate_range* ranges, size_t range_count,
                                     const struct iovec* memory, int memory_count, spate_op** op);
SPATE_API int spate_read_strided_start(spate_file* file, const struct spate_strided* what, const struct iovec* memory,
                                       int memory_count, spate_op** op);
SPATE_API int spate_write_strided_start(spate_file* file, const struct spate_strided* what, const struct iovec* memory,
                                        int memory_count, spate_op** op);
SPATE_API int spate_read_window_start(spate_file* file, const struct spate_strided* what, uint64_t first, uint64_t size,
                                      const struct iovec* memory, int memory_count, spate_op** op);
SPATE_API int spate_write_window_start(spate_file* file, const struct spate_strided* what, uint64_t first,
                                       uint64_t size, const struct iovec* memory, int memory_count, spate_op** op);
SPATE_API int spate_read_shaped_start(spate_file* file, const struct spate_window* what, void* base,
                                      const struct spate_strided* memory, spate_op** op);
SPATE_API int spate_write_shaped_start(spate_file* file, const struct spate_window* what, const void* base,
                                       const struct spate_strided* memory, spate_op** op);
SPATE_API int spate_fsync_start(spate_file* file, spate_op** op);
SPATE_API int spate_ftruncate_start(spate_file* file, off_t size, spate_op** op);
SPATE_API int spate_fstat_start(spate_file* file, struct stat* st, spate_op** op);
SPATE_API int spate_stat_start(spate_fs* fs, const char* path, struct stat* st, spate_op** op);
SPATE_API int spate_mkdir_start(spate_fs* fs, const char* path, mode_t mode, spate_op** op);
SPATE_API int spate_rmdir_start(spate_fs* fs, const char* path, spate_op** op);
SPATE_API int spate_unlink_start(spate_fs* fs, const char* path, spate_op** op);
SPATE_API int spate_rename_start(spate_fs* fs, const char* from, const char* to, unsigned flags, spate_op** op);
SPATE_API int spate_readdir_many_start(spate_file* directory, struct spate_dirent* entries, struct stat* st,
                                       size_t count, spate_op** op);

/* Waits for the operation, frees it and returns its result. */
SPATE_API ssize_t spate_wait(spate_op* op);
/* 1: it has ended, *result is set and the operation freed. 0: not yet. */
SPATE_API int spate_test(spate_op* op, ssize_t* result);
/* Waits for one of `count` (at least 1) operations of one file system. Returns its place in `ops`, sets *result and
 * frees the operation. NULLs are skipped. -EINVAL: there is no operation. */
SPATE_API ssize_t spate_wait_any(spate_op* const* ops, size_t count, ssize_t* result);

#ifdef __cplusplus
}
#endif

#endif /* SPATE_H */
