/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file again and again by the C API, and prints nanoseconds a read: reads PATH SIZE COUNT */
#include <spate.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const size_t size = strtoul(argv[2], NULL, 10);
  const int count = atoi(argv[3]);
  char* const buffer = calloc(1, size);
  spate_fs* fs;
  spate_file* file;
  struct stat st;
  if (buffer == NULL || spate_connect(&fs, NULL, NULL) != 0 || spate_open(fs, argv[1], O_RDONLY, 0, &file) != 0 ||
      spate_fstat(file, &st) != 0) {
    fprintf(stderr, "%s\n", spate_last_error());
    return 1;
  }
  const long pieces = (long)((size_t)st.st_size / size);
  struct timespec begin, end;
  spate_pread(file, buffer, size, 0);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < count; ++i) {
    if (spate_pread(file, buffer, size, (off_t)(i % pieces) * (off_t)size) != (ssize_t)size) return 1;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("%.0f\n", ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / count);
  spate_close(file);
  spate_disconnect(fs);
  free(buffer);
  return 0;
}
