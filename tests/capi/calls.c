/* SPDX-License-Identifier: Apache-2.0 */
/* Each group of calls of spate.h from C, on a running file system (SPATE_FS): exits with 0 if all behaves as spate.h says. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <spate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#define CHECK(what)                                                                       \
  do {                                                                                    \
    if (!(what)) {                                                                        \
      fprintf(stderr, "line %d: %s (last error: %s)\n", __LINE__, #what, spate_last_error()); \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)

enum { SIZE = 3000001 };

static unsigned char *pattern(size_t size, unsigned seed) {
  unsigned char *bytes = malloc(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = (unsigned char)((i * 31 + seed + i / 4096) & 0xff);
  return bytes;
}

static spate_file *opened(spate_fs *fs, const char *path, int flags) {
  spate_file *file = NULL;
  CHECK(spate_open(fs, path, flags, 0640, &file) == 0 && file != NULL);
  return file;
}

static void names(spate_fs *fs) {
  struct stat st;
  char text[64];
  CHECK(spate_mkdir(fs, "/d", 0750) == 0);
  CHECK(spate_mkdir(fs, "d", 0750) == -EEXIST);
  CHECK(strstr(spate_last_error(), "exists") != NULL);
  CHECK(spate_stat(fs, "/d", &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0750);
  CHECK(spate_close(opened(fs, "/d/f", O_CREAT | O_WRONLY | O_EXCL)) == 0);
  CHECK(spate_stat(fs, "/d/f", &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 07777) == 0640 && st.st_nlink == 1);
  CHECK(spate_link(fs, "/d/f", "/d/g") == 0 && spate_stat(fs, "/d/g", &st) == 0 && st.st_nlink == 2);
  CHECK(spate_symlink(fs, "f", "/d/s") == 0);
  CHECK(spate_readlink(fs, "/d/s", text, sizeof text) == 1 && text[0] == 'f');
  CHECK(spate_lstat(fs, "/d/s", &st) == 0 && S_ISLNK(st.st_mode));
  CHECK(spate_rename(fs, "/d/g", "/d/f2", 1) == 0 && spate_rename(fs, "/d/f2", "/d/f", 1) == -EEXIST);
  CHECK(spate_chmod(fs, "/d/f2", 0600) == 0 && spate_access(fs, "/d/f2", 4) == 0);
  const struct timespec times[2] = {{11, 12}, {13, 14}};
  CHECK(spate_utimens(fs, "/d/f2", times, 0) == 0 && spate_stat(fs, "/d/f2", &st) == 0);
  CHECK(st.st_mtim.tv_sec == 13 && st.st_mtim.tv_nsec == 14 && (st.st_mode & 07777) == 0600);
  CHECK(spate_setxattr(fs, "/d/f", "user.colour", "red", 3, XATTR_CREATE) == 0);
  CHECK(spate_setxattr(fs, "/d/f", "user.colour", "red", 3, XATTR_CREATE) == -EEXIST);
  CHECK(spate_getxattr(fs, "/d/f", "user.colour", NULL, 0, 0) == 3);
  CHECK(spate_getxattr(fs, "/d/f", "user.colour", text, 2, 0) == -ERANGE);
  CHECK(spate_getxattr(fs, "/d/f", "user.colour", text, sizeof text, 0) == 3 && memcmp(text, "red", 3) == 0);
  CHECK(spate_listxattr(fs, "/d/f", text, sizeof text, 0) >= 12);
  CHECK(spate_removexattr(fs, "/d/f", "user.colour") == 0);
  CHECK(spate_getxattr(fs, "/d/f", "user.colour", text, sizeof text, 0) == -ENODATA);
  CHECK(spate_rmdir(fs, "/d") == -ENOTEMPTY && spate_unlink(fs, "/d") == -EISDIR && spate_unlink(fs, "/none") == -ENOENT);
  struct statvfs space;
  CHECK(spate_statvfs(fs, &space) == 0 && space.f_blocks > 0 && space.f_namemax == 255);
  CHECK(spate_sync(fs) == 0);
}

/* Windows of patterns, and lists that exceed one request. */
static void pieces(spate_fs *fs) {
  enum { LONG = 40000 };
  unsigned char *in = pattern(SIZE, 9);
  unsigned char *out = malloc(SIZE);
  spate_file *file = opened(fs, "/pieces", O_CREAT | O_RDWR);
  CHECK(spate_pwrite(file, in, SIZE, 0) == SIZE);
  /* Records of 100 bytes, every third; the pattern goes on far beyond the file. */
  const struct spate_strided records = {200, 100, 1, {{1000000000, 300}}};
  const struct iovec window = {out, 250};
  CHECK(spate_read_window(file, &records, 1050, 250, &window, 1) == 250);
  CHECK(memcmp(out, in + 200 + 3000 + 50, 50) == 0 && memcmp(out + 50, in + 200 + 3300, 100) == 0 && memcmp(out + 150, in + 200 + 3600, 100) == 0);
  memset(out, 1, 250);
  CHECK(spate_write_window(file, &records, 1050, 250, &window, 1) == 250);
  memset(in + 3250, 1, 50);
  memset(in + 3500, 1, 100);
  memset(in + 3800, 1, 100);
  const struct spate_strided wrong = {0, 1, 9, {{1, 1}}};
  CHECK(spate_read_window(file, &wrong, 0, 1, &window, 1) == -EINVAL);

  /* The box of docs/c-api.md, smaller: 2 x 3 rows of 40 bytes at (1, 2, 7) of 10 x 20 x 100 bytes, from two pieces of memory. Then windows of
   * it, read side by side. */
  const struct spate_strided box = {(1 * 20 + 2) * 100 + 7, 40, 2, {{2, 2000}, {3, 100}}};
  for (int i = 0; i < 240; ++i) out[i] = (unsigned char)(i + 3);
  const struct iovec halves[2] = {{out, 110}, {out + 110, 130}};
  CHECK(spate_write_strided(file, &box, halves, 2) == 240);
  for (int i = 0; i < 240; ++i) in[box.offset + (size_t)(i / 120) * 2000 + (size_t)(i / 40 % 3) * 100 + (size_t)(i % 40)] = (unsigned char)(i + 3);
  unsigned char parts[4][60];
  spate_op *ops[4];
  for (int i = 0; i < 4; ++i) {
    const struct iovec memory = {parts[i], 60};
    CHECK(spate_read_window_start(file, &box, (uint64_t)i * 60, 60, &memory, 1, &ops[i]) == 0);
  }
  for (int i = 0; i < 4; ++i) CHECK(spate_wait(ops[i]) == 60 && memcmp(parts[i], out + i * 60, 60) == 0);

  struct spate_range *ranges = malloc(LONG * sizeof *ranges);
  for (size_t i = 0; i < LONG; ++i) ranges[i] = (struct spate_range){i * 20 + 5, 4};
  const struct iovec all = {out, LONG * 4};
  CHECK(spate_read_list(file, ranges, LONG, &all, 1) == LONG * 4);
  for (size_t i = 0; i < LONG; ++i) CHECK(memcmp(out + i * 4, in + i * 20 + 5, 4) == 0);
  memset(out, 2, LONG * 4);
  spate_op *op = NULL;
  CHECK(spate_write_list_start(file, ranges, LONG, &all, 1, &op) == 0 && spate_wait(op) == LONG * 4);
  for (size_t i = 0; i < LONG; ++i) memset(in + i * 20 + 5, 2, 4);
  CHECK(spate_pread(file, out, SIZE, 0) == SIZE && memcmp(in, out, SIZE) == 0);
  const struct iovec less = {out, LONG * 4 - 1};
  CHECK(spate_read_list(file, ranges, LONG, &less, 1) == -EINVAL);
  CHECK(spate_ftruncate(file, 20000 * 20) == 0 && spate_read_list(file, ranges, LONG, &all, 1) == 20000 * 4);
  CHECK(spate_close(file) == 0);
  free(ranges);
  free(in);
  free(out);
}

static void data(spate_fs *fs) {
  unsigned char *in = pattern(SIZE, 7);
  unsigned char *out = malloc(SIZE);
  spate_file *file = opened(fs, "/data", O_CREAT | O_RDWR);
  CHECK(spate_pwrite(file, in, SIZE, 0) == SIZE);
  CHECK(spate_pread(file, out, SIZE, 0) == SIZE && memcmp(in, out, SIZE) == 0);
  CHECK(spate_pread(file, out, SIZE, SIZE - 10) == 10 && spate_pread(file, out, 10, SIZE) == 0);
  struct stat st;
  CHECK(spate_fsync(file) == 0 && spate_fstat(file, &st) == 0 && st.st_size == SIZE);
  CHECK(spate_lseek(file, 100, SEEK_SET) == 100 && spate_read(file, out, 50) == 50 && memcmp(out, in + 100, 50) == 0);
  CHECK(spate_lseek(file, 0, SEEK_CUR) == 150 && spate_lseek(file, 0, SEEK_END) == SIZE);
  struct iovec memory[2] = {{out, 1000}, {out + 5000, 2000}};
  CHECK(spate_preadv(file, memory, 2, 65000) == 3000);
  CHECK(memcmp(out, in + 65000, 1000) == 0 && memcmp(out + 5000, in + 66000, 2000) == 0);
  CHECK(spate_preadv(file, memory, -1, 0) == -EINVAL && spate_pread(file, NULL, 10, 0) == -EINVAL);

  const struct spate_range ranges[3] = {{2000000, 70000}, {10, 5}, {65536, 65536}};
  const struct iovec whole = {out, 70000 + 5 + 65536};
  CHECK(spate_read_list(file, ranges, 3, &whole, 1) == (ssize_t)whole.iov_len);
  CHECK(memcmp(out, in + 2000000, 70000) == 0 && memcmp(out + 70000, in + 10, 5) == 0 && memcmp(out + 70005, in + 65536, 65536) == 0);
  struct spate_strided rows = {100, 4, 1, {{1000, 2500}}};
  unsigned char zeros[4000] = {0};
  const struct iovec stripes = {zeros, sizeof zeros};
  CHECK(spate_write_strided(file, &rows, &stripes, 1) == 4000);
  CHECK(spate_pread(file, out, SIZE, 0) == SIZE);
  for (size_t i = 0; i < 1000; ++i) memset(in + 100 + i * 2500, 0, 4);
  CHECK(memcmp(in, out, SIZE) == 0);
  CHECK(spate_ftruncate(file, 1000) == 0 && spate_pread(file, out, SIZE, 0) == 1000);
  CHECK(spate_close(file) == 0);

  struct spate_layout layout = {.strip_bytes = 4096, .target_count = 1};
  CHECK(spate_open_layout(fs, "/narrow", O_CREAT | O_RDWR | O_EXCL, 0600, &layout, &file) == 0);
  memset(&layout, 0, sizeof layout);
  CHECK(spate_get_layout(file, &layout) == 0 && layout.strip_bytes == 4096 && layout.target_count == 1);
  CHECK(strcmp(layout.distribution, "simple_stripe") == 0);
  CHECK(spate_close(file) == 0);
  free(in);
  free(out);
}

/* A 3-D box of memory with ghost cells around it, and the same box of a larger array in the file. */
static void shaped(spate_fs *fs) {
  enum { X = 30, Y = 20, Z = 50, FX = 100, FY = 60, FZ = 80, CELLS = X * Y * Z };
  static int box[(X + 2) * (Y + 2) * (Z + 2)], back[(X + 2) * (Y + 2) * (Z + 2)], whole[FX * FY * FZ];
  const struct spate_strided memory = {4 * (((Y + 2) + 1) * (Z + 2) + 1), 4 * Z, 2, {{X, 4 * (Y + 2) * (Z + 2)}, {Y, 4 * (Z + 2)}}};
  struct spate_window what = {{4 * ((5 * FY + 6) * FZ + 7), 4 * Z, 2, {{X, 4 * FY * FZ}, {Y, 4 * FZ}}}, 0, 4 * CELLS};
  for (size_t i = 0; i < sizeof box / sizeof *box; ++i) box[i] = (int)i + 1;
  spate_file *file = opened(fs, "/shaped", O_CREAT | O_RDWR);
  CHECK(spate_ftruncate(file, sizeof whole) == 0);
  CHECK(spate_write_shaped(file, &what, box, &memory) == 4 * CELLS);
  CHECK(spate_pread(file, whole, sizeof whole, 0) == sizeof whole);
  for (int x = 0; x < FX; ++x)
    for (int y = 0; y < FY; ++y)
      for (int z = 0; z < FZ; ++z) {
        const int in = x >= 5 && x < 5 + X && y >= 6 && y < 6 + Y && z >= 7 && z < 7 + Z;
        CHECK(whole[(x * FY + y) * FZ + z] == (in ? box[((x - 5 + 1) * (Y + 2) + y - 6 + 1) * (Z + 2) + z - 7 + 1] : 0));
      }
  spate_op *op = NULL;
  CHECK(spate_read_shaped_start(file, &what, back, &memory, &op) == 0 && spate_wait(op) == 4 * CELLS);
  for (int x = 0; x < X + 2; ++x)
    for (int y = 0; y < Y + 2; ++y)
      for (int z = 0; z < Z + 2; ++z) {
        const int ghost = x == 0 || y == 0 || z == 0 || x == X + 1 || y == Y + 1 || z == Z + 1;
        const int i = (x * (Y + 2) + y) * (Z + 2) + z;
        CHECK(back[i] == (ghost ? 0 : box[i]));
      }
  /* A window from its middle on, to memory of single ints. */
  const struct spate_strided every_other = {0, 4, 1, {{CELLS, 8}}};
  memset(whole, 0, sizeof whole);
  what.first = 4000, what.size = 4 * CELLS - 4000;
  CHECK(spate_read_shaped(file, &what, whole, &every_other) == 4 * CELLS - 4000);
  for (int i = 0; i < 2 * (CELLS - 1000); ++i) {
    const int cell = i / 2 + 1000;
    CHECK(whole[i] == (i % 2 ? 0 : box[((cell / (Y * Z) + 1) * (Y + 2) + cell / Z % Y + 1) * (Z + 2) + cell % Z + 1]));
  }
  CHECK(spate_write_shaped_start(file, &what, whole, &every_other, &op) == 0 && spate_wait(op) == (ssize_t)what.size);
  const struct spate_strided small = {0, 4, 0, {{0, 0}}};
  CHECK(spate_read_shaped(file, &what, whole, &small) == -EINVAL);
  CHECK(spate_read_shaped(file, &what, NULL, &every_other) == -EINVAL && spate_read_shaped(file, NULL, whole, &small) == -EFAULT);
  CHECK(spate_read_shaped(file, &what, whole, NULL) == -EINVAL);
  CHECK(spate_close(file) == 0 && spate_unlink(fs, "/shaped") == 0);
}

static void by_inode(spate_fs *fs) {
  spate_file *file = opened(fs, "/by_inode", O_CREAT | O_RDWR), *other = NULL;
  struct stat st;
  CHECK(spate_pwrite(file, "first", 5, 0) == 5 && spate_fstat(file, &st) == 0);
  CHECK(spate_rename(fs, "/by_inode", "/renamed", 0) == 0);
  CHECK(spate_open_inode(fs, st.st_ino, O_RDWR, &other) == 0);
  char text[6] = "";
  CHECK(spate_pwrite(other, "s", 1, 0) == 1 && spate_pread(file, text, 5, 0) == 5 && strcmp(text, "sirst") == 0);
  CHECK(spate_close(other) == 0 && spate_close(file) == 0);
  CHECK(spate_open_inode(fs, st.st_ino, O_RDONLY, &other) == 0);
  CHECK(spate_pwrite(other, "s", 1, 0) == -EBADF && strstr(spate_last_error(), "inode ") != NULL);
  CHECK(spate_close(other) == 0);
  CHECK(spate_open_inode(fs, st.st_ino, O_RDWR | O_CREAT, &other) == -EINVAL && other == NULL);
  CHECK(spate_unlink(fs, "/renamed") == 0);
  CHECK(spate_open_inode(fs, st.st_ino, O_RDWR, &other) == -ESTALE && other == NULL);
  CHECK(spate_open_inode(fs, 0, O_RDWR, &other) == -ESTALE && other == NULL);
}

static void started(spate_fs *fs) {
  enum { OPS = 16, PIECE = 100000 };
  unsigned char *in = pattern(OPS * PIECE, 3);
  unsigned char *out = malloc(OPS * PIECE);
  spate_file *file = opened(fs, "/started", O_CREAT | O_RDWR);
  spate_op *ops[OPS];
  for (int i = 0; i < OPS; ++i) CHECK(spate_pwrite_start(file, in + i * PIECE, PIECE, (off_t)i * PIECE, &ops[i]) == 0);
  CHECK(spate_disconnect(fs) == -EBUSY);
  CHECK(spate_close(file) == -EBUSY && strstr(spate_last_error(), "/started") != NULL);
  spate_op *closing = NULL;
  CHECK(spate_close_start(file, &closing) == -EBUSY && closing == NULL);
  for (int i = 0; i < OPS; ++i) CHECK(spate_wait(ops[i]) == PIECE);
  for (int i = 0; i < OPS; ++i) CHECK(spate_pread_start(file, out + i * PIECE, PIECE, (off_t)i * PIECE, &ops[i]) == 0);
  for (int left = OPS; left > 0; --left) {
    ssize_t result = 0;
    const ssize_t which = spate_wait_any(ops, OPS, &result);
    CHECK(which >= 0 && which < OPS && result == PIECE);
    ops[which] = NULL;
  }
  CHECK(spate_wait_any(ops, OPS, &(ssize_t){0}) == -EINVAL);
  CHECK(memcmp(in, out, OPS * PIECE) == 0);
  ssize_t result = 0;
  CHECK(spate_fsync_start(file, &ops[0]) == 0);
  while (spate_test(ops[0], &result) == 0) continue;
  CHECK(result == 0);
  CHECK(spate_unlink_start(fs, "/none", &ops[0]) == 0 && spate_wait(ops[0]) == -ENOENT);
  CHECK(strstr(spate_last_error(), "/none") != NULL);
  spate_file *none = NULL;
  CHECK(spate_open(fs, "/neither", O_RDONLY, 0, &none) == -ENOENT && strstr(spate_last_error(), "/neither") != NULL);
  CHECK(spate_close(file) == 0);
  free(in);
  free(out);
}

static void directories(spate_fs *fs) {
  enum { FILES = 300 };
  char name[32];
  CHECK(spate_mkdir(fs, "/many", 0755) == 0);
  for (int i = 0; i < FILES; ++i) {
    snprintf(name, sizeof name, "/many/%d", i);
    CHECK(spate_close(opened(fs, name, O_CREAT | O_WRONLY)) == 0);
  }
  spate_file *directory = opened(fs, "/many", O_RDONLY | O_DIRECTORY);
  struct spate_dirent entries[64];
  struct stat st[64];
  int seen = 0;
  for (ssize_t n = 0; (n = spate_readdir_many(directory, entries, st, 64)) != 0;) {
    CHECK(n > 0);
    for (ssize_t i = 0; i < n; ++i) {
      if (entries[i].name[0] == '.') continue;
      ++seen;
      CHECK(entries[i].type == DT_REG && (st[i].st_nlink == 0 || S_ISREG(st[i].st_mode)));
    }
  }
  CHECK(seen == FILES);
  CHECK(spate_lseek(directory, 0, SEEK_SET) == 0);
  seen = 0;
  for (int n = 0; (n = spate_readdir(directory, entries)) != 0; ++seen) CHECK(n == 1);
  CHECK(seen == FILES + 2);
  spate_file *below = NULL;
  CHECK(spate_openat(directory, "7", O_RDONLY, 0, &below) == 0 && spate_close(below) == 0);
  CHECK(spate_fstatat(directory, "8", st, 0) == 0 && spate_fstatat(directory, "none", st, 0) == -ENOENT);
  CHECK(spate_unlinkat(directory, "7", AT_REMOVEDIR) == -ENOTDIR && spate_unlinkat(directory, "7", 1 << 30) == -EINVAL);
  CHECK(spate_close(opened(fs, "/many/gone", O_CREAT | O_WRONLY)) == 0);
  CHECK(spate_unlinkat(directory, "gone", 0) == 0 && spate_unlinkat(directory, "gone", 0) == -ENOENT);
  CHECK(spate_mkdir(fs, "/many/below", 0755) == 0 && spate_unlinkat(directory, "below", 0) == -EISDIR);
  CHECK(spate_unlinkat(directory, "below", AT_REMOVEDIR) == 0 && spate_stat(fs, "/many/below", st) == -ENOENT);
  CHECK(spate_close(directory) == 0);
}

struct writer {
  spate_fs *fs;
  spate_file *file;
  unsigned number;
};

static void *write_part(void *given) {
  const struct writer *writer = given;
  for (unsigned i = writer->number; i < 400; i += 4) {
    unsigned char piece[777];
    memset(piece, (int)(i & 0xff), sizeof piece);
    CHECK(spate_pwrite(writer->file, piece, sizeof piece, (off_t)i * 777) == 777);
  }
  return NULL;
}

static void threads(spate_fs *fs) {
  pthread_t thread[4];
  struct writer writers[4];
  spate_file *file = opened(fs, "/threads", O_CREAT | O_RDWR);
  for (unsigned i = 0; i < 4; ++i) {
    writers[i] = (struct writer){fs, file, i};
    CHECK(pthread_create(&thread[i], NULL, write_part, &writers[i]) == 0);
  }
  for (unsigned i = 0; i < 4; ++i) CHECK(pthread_join(thread[i], NULL) == 0);
  unsigned char piece[777];
  for (unsigned i = 0; i < 400; ++i) {
    CHECK(spate_pread(file, piece, sizeof piece, (off_t)i * 777) == 777);
    CHECK(piece[0] == (i & 0xff) && piece[776] == (i & 0xff));
  }
  CHECK(spate_close(file) == 0);
}

static void *close_file(void *file) {
  CHECK(spate_close(file) == 0);
  return NULL;
}

/* A disconnect while another thread's last call is returning fails and frees nothing that the call uses. */
static void disconnects(const struct spate_options *options) {
  for (int i = 0; i < 40; ++i) {
    spate_fs *fs = NULL;
    pthread_t closer;
    CHECK(spate_connect(&fs, NULL, options) == 0);
    CHECK(pthread_create(&closer, NULL, close_file, opened(fs, "/", O_RDONLY)) == 0);
    int result;
    while ((result = spate_disconnect(fs)) == -EBUSY) continue;
    CHECK(result == 0);
    CHECK(pthread_join(closer, NULL) == 0);
  }
}

static void arguments(spate_fs *fs) {
  struct stat st;
  spate_file *file = (spate_file *)8;
  CHECK(spate_stat(NULL, "/", &st) == -EFAULT);
  CHECK(spate_stat(fs, NULL, &st) < 0 && spate_stat(fs, "/", NULL) < 0);
  CHECK(spate_open(fs, "/none", O_RDONLY, 0, &file) == -ENOENT && file == NULL);
  CHECK(spate_close(NULL) < 0 && spate_wait(NULL) < 0);
  spate_fs *none = (spate_fs *)8;
  CHECK(spate_connect(&none, "/nowhere/spate.toml", NULL) < 0 && none == NULL);
  CHECK(strstr(spate_last_error(), "/nowhere") != NULL);
  const char *const wrong[] = {"client.no_such_key=1", NULL};
  const struct spate_options options = {.size = sizeof options, .settings = wrong};
  CHECK(spate_connect(&none, NULL, &options) < 0 && strstr(spate_last_error(), "no_such_key") != NULL);
}

int main(void) {
  for (unsigned flags = 0; flags <= SPATE_PROGRESS_THREAD; ++flags) {
    spate_fs *fs = NULL;
    const struct spate_options options = {.size = sizeof options, .flags = flags};
    CHECK(spate_connect(&fs, NULL, &options) == 0);
    names(fs);
    data(fs);
    pieces(fs);
    shaped(fs);
  by_inode(fs);
  started(fs);
    directories(fs);
    threads(fs);
    arguments(fs);
    const char *const gone[] = {"/d/f", "/d/f2", "/d/s", "/data", "/narrow", "/pieces", "/started", "/threads"};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; ++i) CHECK(spate_unlink(fs, gone[i]) == 0);
    char name[32];
    for (int i = 0; i < 300; ++i) {
      snprintf(name, sizeof name, "/many/%d", i);
      CHECK(spate_unlink(fs, name) == 0);
    }
    CHECK(spate_rmdir(fs, "/many") == 0 && spate_rmdir(fs, "/d") == 0);
    CHECK(spate_disconnect(fs) == 0);
    disconnects(&options);
  }
  printf("%s\n", spate_version());
  return 0;
}
