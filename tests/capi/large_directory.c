/* SPDX-License-Identifier: Apache-2.0 */
/* large_directory COUNT: a directory of COUNT files, made by several threads, is listed with attributes while two others add and remove
 * names: each of the COUNT comes once, and a listing that begins again behind any entry goes on with the next one. */
#define _GNU_SOURCE /* O_DIRECTORY */
#include <pthread.h>
#include <spate.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAKERS = 8, CHANGERS = 2, PAGE = 2000, MARKS = 50 };

static spate_fs *fs;
static long count;
static atomic_int ending;
static atomic_long changes;

static void must(long result, const char *what) {
  if (result >= 0) return;
  fprintf(stderr, "%s: %s\n", what, spate_last_error());
  exit(1);
}

static void fail(const char *what, const char *name) {
  fprintf(stderr, "%s: %s\n", name, what);
  exit(1);
}

static void make(const char *path) {
  spate_file *file;
  must(spate_open(fs, path, O_CREAT | O_EXCL | O_WRONLY, 0644, &file), path);
  must(spate_close(file), path);
}

static void *maker(void *argument) {
  char path[64];
  for (long i = (long)(size_t)argument; i < count; i += MAKERS) {
    snprintf(path, sizeof path, "/large/f%ld", i);
    make(path);
  }
  return NULL;
}

/* Adds and removes names that are not among the COUNT. */
static void *changer(void *argument) {
  char path[64];
  for (long i = 0; !atomic_load(&ending); i++) {
    snprintf(path, sizeof path, "/large/x%zu-%ld", (size_t)argument, i);
    make(path);
    if (i % 2 == 0) must(spate_unlink(fs, path), path);
    atomic_fetch_add(&changes, 1);
  }
  return NULL;
}

static unsigned char *seen;
static struct {
  uint64_t next;
  char after[256]; /* the next name; empty: not known yet, or it may have gone */
} marks[MARKS];
static int mark_count;

static void take(const struct spate_dirent *entry, const struct stat *st, long place) {
  if (mark_count > 0 && marks[mark_count - 1].after[0] == '\0') strcpy(marks[mark_count - 1].after, entry->name);
  if (place % (count / (MARKS - 1)) == 0 && mark_count < MARKS) marks[mark_count++].next = entry->next;
  if (entry->name[0] != 'f') return;
  const long number = strtol(entry->name + 1, NULL, 10);
  if (number < 0 || number >= count) fail("was never made", entry->name);
  if (seen[number]++ != 0) fail("comes twice", entry->name);
  if (st->st_ino != entry->handle || st->st_nlink != 1 || !S_ISREG(st->st_mode)) fail("has other attributes", entry->name);
}

static void list(spate_file *directory) {
  static struct spate_dirent entries[PAGE];
  static struct stat attributes[PAGE];
  long place = 0;
  for (;;) {
    const ssize_t got = spate_readdir_many(directory, entries, attributes, PAGE);
    must(got, "readdir");
    if (got == 0) return;
    for (ssize_t i = 0; i < got; i++) take(&entries[i], &attributes[i], place++);
  }
}

/* Continues behind each mark: names that stay keep their order. */
static void resume(spate_file *directory) {
  for (int i = 0; i < mark_count; i++) {
    if (marks[i].after[0] != 'f') continue;
    struct spate_dirent entry;
    if (spate_lseek(directory, (off_t)marks[i].next, SEEK_SET) < 0) fail("cannot be gone back to", marks[i].after);
    do {
      if (spate_readdir(directory, &entry) != 1) fail("is not found again", marks[i].after);
    } while (entry.name[0] == 'x');
    if (strcmp(entry.name, marks[i].after) != 0) fail("comes instead", entry.name);
  }
}

int main(int argc, char **argv) {
  if (argc != 2 || (count = atol(argv[1])) < MARKS) return 2;
  must(spate_connect(&fs, NULL, NULL), "connect");
  must(spate_mkdir(fs, "/large", 0755), "/large");
  pthread_t threads[MAKERS];
  for (size_t i = 0; i < MAKERS; i++) pthread_create(&threads[i], NULL, maker, (void *)i);
  for (size_t i = 0; i < MAKERS; i++) pthread_join(threads[i], NULL);
  for (size_t i = 0; i < CHANGERS; i++) pthread_create(&threads[i], NULL, changer, (void *)i);
  spate_file *directory;
  must(spate_open(fs, "/large", O_RDONLY | O_DIRECTORY, 0, &directory), "/large");
  seen = calloc((size_t)count, 1);
  list(directory);
  resume(directory);
  atomic_store(&ending, 1);
  for (size_t i = 0; i < CHANGERS; i++) pthread_join(threads[i], NULL);
  for (long i = 0; i < count; i++) {
    if (seen[i] != 1) {
      fprintf(stderr, "f%ld is missing\n", i);
      return 1;
    }
  }
  free(seen);
  printf("%ld names listed once each while %ld came and half of those went\n", count, atomic_load(&changes));
  must(spate_close(directory), "/large");
  return spate_disconnect(fs) == 0 && atomic_load(&changes) > 0 ? 0 : 1;
}
