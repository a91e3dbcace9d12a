// SPDX-License-Identifier: Apache-2.0
// mpi_io FILE: MPI-IO by several processes (ROMIO): independent and collective writes with a strided view, appends by a shared
// pointer, sizes; each byte is looked at by another process than the one that wrote it. Exit code 1 and a line of text if one is wrong.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBlock = 1000, kBlocks = 64, kTotal = kBlock * kBlocks };

static int g_rank, g_ranks;

static void must(int code, const char* what) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (code == MPI_SUCCESS) return;
  MPI_Error_string(code, text, &length);
  printf("rank %d: %s: %.*s\n", g_rank, what, length, text);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void wrong(const char* what, long at) {
  printf("rank %d: %s: wrong at %ld\n", g_rank, what, at);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static char value(int rank, int block, int i) { return (char)(rank * 31 + block * 7 + i); }

static MPI_File open_file(const char* path, int mode) {
  MPI_File file;
  must(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "open");
  return file;
}

/* A view of one rank's blocks, which alternate with the others'. */
static void set_view(MPI_File file, int rank) {
  MPI_Datatype type;
  MPI_Type_vector(kBlocks, kBlock, kBlock * g_ranks, MPI_CHAR, &type);
  MPI_Type_commit(&type);
  must(MPI_File_set_view(file, (MPI_Offset)rank * kBlock, MPI_CHAR, type, "native", MPI_INFO_NULL), "view");
  MPI_Type_free(&type);
}

static void strided(const char* path, int collective) {
  static char data[kTotal];
  const int other = (g_rank + 1) % g_ranks;
  MPI_Status status;
  MPI_Offset size = 0;
  MPI_File file = open_file(path, MPI_MODE_CREATE | MPI_MODE_RDWR);
  for (int b = 0; b < kBlocks; ++b)
    for (int i = 0; i < kBlock; ++i) data[b * kBlock + i] = value(g_rank, b, i);
  set_view(file, g_rank);
  must(collective ? MPI_File_write_all(file, data, kTotal, MPI_CHAR, &status) : MPI_File_write(file, data, kTotal, MPI_CHAR, &status), "write");
  must(MPI_File_sync(file), "sync");
  MPI_Barrier(MPI_COMM_WORLD);
  must(MPI_File_get_size(file, &size), "size");
  if (size != (MPI_Offset)kTotal * g_ranks) wrong("size", (long)size);
  set_view(file, other);
  memset(data, 0, sizeof data);
  must(collective ? MPI_File_read_all(file, data, kTotal, MPI_CHAR, &status) : MPI_File_read(file, data, kTotal, MPI_CHAR, &status), "read");
  for (int b = 0; b < kBlocks; ++b)
    for (int i = 0; i < kBlock; ++i)
      if (data[b * kBlock + i] != value(other, b, i)) wrong(collective ? "collective" : "independent", b * kBlock + i);
  must(MPI_File_close(&file), "close");
}

/* Records of whole blocks through the shared pointer: each must appear once. */
static void shared_pointer(const char* path) {
  char block[kBlock];
  int* const seen = calloc((size_t)g_ranks, sizeof *seen);
  MPI_Status status;
  MPI_File file = open_file(path, MPI_MODE_CREATE | MPI_MODE_RDWR);
  memset(block, 'a' + g_rank, sizeof block);
  for (int i = 0; i < 8; ++i) must(MPI_File_write_shared(file, block, kBlock, MPI_CHAR, &status), "write by the shared pointer");
  must(MPI_File_sync(file), "sync");
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 8 * g_ranks; ++i) {
    must(MPI_File_read_at(file, (MPI_Offset)i * kBlock, block, kBlock, MPI_CHAR, &status), "read");
    for (int j = 1; j < kBlock; ++j)
      if (block[j] != block[0]) wrong("a record is torn", i);
    if (block[0] < 'a' || block[0] >= 'a' + g_ranks) wrong("no record", i);
    ++seen[block[0] - 'a'];
  }
  for (int r = 0; r < g_ranks; ++r)
    if (seen[r] != 8) wrong("records of a rank", r);
  free(seen);
  must(MPI_File_set_size(file, 12345), "set_size");
  must(MPI_File_preallocate(file, 50000), "preallocate");
  must(MPI_File_close(&file), "close");
}

int main(int argc, char** argv) {
  char path[4096];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g_ranks);
  if (argc != 2 || strlen(argv[1]) > 4000) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int collective = 0; collective < 2; ++collective) {
    snprintf(path, sizeof path, "%s.%d", argv[1], collective);
    strided(path, collective);
  }
  snprintf(path, sizeof path, "%s.shared", argv[1]);
  shared_pointer(path);
  if (g_rank == 0) must(MPI_File_delete(path, MPI_INFO_NULL), "delete");
  if (g_rank == 0) printf("%d ranks\n", g_ranks);
  MPI_Finalize();
  return 0;
}
