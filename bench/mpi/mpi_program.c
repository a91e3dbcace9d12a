/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_program FILE PATTERN WAY PIECE BYTES RUNS: the ranks write and then read one file with MPI-IO, RUNS times. Prints
 * "write SECONDS read SECONDS" for each run, of the slowest rank.
 *   PATTERN   contiguous: one part of BYTES a rank. pieces: pieces of PIECE bytes, dealt out to the ranks in turn, BYTES a
 *             rank. btio: BYTES is the side of the cube of cells of 40 bytes; the number of ranks is a square.
 *   WAY       independent, enable, disable or automatic: a collective call with that value of romio_cb_write and _read.
 *             native: each rank by calls of spate.h, without MPI-IO (contiguous and pieces); FILE is a path in Spate. */
#include <fcntl.h>
#include <mpi.h>
#include <spate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void must(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fprintf(stderr, "mpi_program: %s: %s\n", what, text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* BT's diagonal multi-partition: in each of q slabs the rank has one block, moved on by one in the next slab. */
static MPI_Datatype btio_type(int side, long* bytes) {
  int q = 1;
  while ((q + 1) * (q + 1) <= ranks) ++q;
  const int i = rank % q, j = rank / q;
  MPI_Datatype cell, type;
  MPI_Type_contiguous(5, MPI_DOUBLE, &cell);
  MPI_Datatype* blocks = malloc((size_t)q * sizeof *blocks);
  int* ones = malloc((size_t)q * sizeof *ones);
  MPI_Aint* zeros = calloc((size_t)q, sizeof *zeros);
  *bytes = 0;
  for (int c = 0; c < q; ++c) {
    const int at[3] = {c, (j + c) % q, (i + c) % q};
    int whole[3], part[3], start[3];
    long cells = 1;
    for (int d = 0; d < 3; ++d) {
      whole[d] = side;
      start[d] = at[d] * side / q;
      part[d] = (at[d] + 1) * side / q - start[d];
      cells *= part[d];
    }
    MPI_Type_create_subarray(3, whole, part, start, MPI_ORDER_C, cell, &blocks[c]);
    ones[c] = 1;
    *bytes += cells * 40;
  }
  MPI_Type_create_struct(q, ones, zeros, blocks, &type);
  for (int c = 0; c < q; ++c) MPI_Type_free(&blocks[c]);
  MPI_Type_free(&cell);
  free(blocks);
  free(ones);
  free(zeros);
  return type;
}

static MPI_Datatype pieces_type(int piece) {
  MPI_Datatype bytes, type;
  MPI_Type_contiguous(piece, MPI_BYTE, &bytes);
  MPI_Type_create_resized(bytes, 0, (MPI_Aint)piece * ranks, &type);
  MPI_Type_free(&bytes);
  return type;
}

/* This rank's bytes as MPI-IO would ask for them, by one call. */
static double native(spate_file* file, int write, const char* pattern, int piece, char* memory, long bytes) {
  const struct iovec all = {memory, (size_t)bytes};
  const struct spate_strided mine = {(uint64_t)rank * (uint64_t)piece, (uint64_t)piece, 1, {{(uint64_t)(bytes / (piece > 0 ? piece : 1)), (uint64_t)piece * (uint64_t)ranks}}};
  const double begin = MPI_Wtime();
  ssize_t done;
  if (!strcmp(pattern, "pieces"))
    done = write ? spate_write_strided(file, &mine, &all, 1) : spate_read_strided(file, &mine, &all, 1);
  else
    done = write ? spate_pwritev(file, &all, 1, rank * bytes) : spate_preadv(file, &all, 1, rank * bytes);
  const double took = MPI_Wtime() - begin;
  if (done == bytes) return took;
  fprintf(stderr, "mpi_program: %ld of %ld bytes: %s\n", (long)done, bytes, spate_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
  return 0;
}

static void run_native(const char* path, const char* pattern, int piece, long bytes, int runs) {
  spate_fs* fs;
  spate_file* file = NULL;
  char* memory = malloc((size_t)bytes);
  if (spate_connect(&fs, NULL, NULL) != 0 || (rank == 0 && spate_open(fs, path, O_CREAT | O_RDWR, 0644, &file) != 0)) {
    fprintf(stderr, "mpi_program: %s\n", spate_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0 && spate_open(fs, path, O_RDWR, 0, &file) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int run = 0; run < runs; ++run) {
    double seconds[2];
    long all = 0;
    for (int read = 0; read < 2; ++read) {
      memset(memory, read ? 0 : 'a' + rank, (size_t)bytes);
      MPI_Barrier(MPI_COMM_WORLD);
      const double took = native(file, !read, pattern, piece, memory, bytes);
      MPI_Allreduce(&took, &seconds[read], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    MPI_Allreduce(&bytes, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (memory[bytes - 1] != 'a' + rank) MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0) printf("%ld %.9f %.9f\n", all, seconds[0], seconds[1]);
  }
  spate_close(file);
  spate_disconnect(fs);
  free(memory);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 7) {
    fprintf(stderr, "usage: mpi_program FILE PATTERN WAY PIECE BYTES RUNS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const char *pattern = argv[2], *way = argv[3];
  const int piece = atoi(argv[4]), together = strcmp(way, "independent") != 0;
  long bytes = atol(argv[5]);
  if (!strcmp(way, "native")) {
    run_native(argv[1], pattern, piece, bytes, atoi(argv[6]));
    MPI_Finalize();
    return 0;
  }
  MPI_Datatype type = MPI_BYTE;
  MPI_Offset displacement = 0;
  if (!strcmp(pattern, "contiguous")) displacement = rank * bytes;
  if (!strcmp(pattern, "pieces")) {
    type = pieces_type(piece);
    displacement = (MPI_Offset)rank * piece;
  }
  if (!strcmp(pattern, "btio")) type = btio_type((int)bytes, &bytes);
  if (type != MPI_BYTE) MPI_Type_commit(&type);
  MPI_Info info;
  MPI_Info_create(&info);
  if (together) {
    MPI_Info_set(info, "romio_cb_write", way);
    MPI_Info_set(info, "romio_cb_read", way);
  }
  char* memory = malloc((size_t)bytes);
  memset(memory, 'a' + rank, (size_t)bytes);
  MPI_File file;
  must(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file), "open");
  must(MPI_File_set_view(file, displacement, MPI_BYTE, type, "native", info), "set_view");
  for (int run = 0; run < atoi(argv[6]); ++run) {
    double seconds[2];
    for (int read = 0; read < 2; ++read) {
      MPI_Status status;
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      if (read) memset(memory, 0, (size_t)bytes);
      if (read && together) must(MPI_File_read_at_all(file, 0, memory, (int)bytes, MPI_BYTE, &status), "read_at_all");
      if (read && !together) must(MPI_File_read_at(file, 0, memory, (int)bytes, MPI_BYTE, &status), "read_at");
      if (!read && together) must(MPI_File_write_at_all(file, 0, memory, (int)bytes, MPI_BYTE, &status), "write_at_all");
      if (!read && !together) must(MPI_File_write_at(file, 0, memory, (int)bytes, MPI_BYTE, &status), "write_at");
      double took = MPI_Wtime() - begin;
      MPI_Allreduce(&took, &seconds[read], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    for (long i = 0; i < bytes; ++i) {
      if (memory[i] == 'a' + rank) continue;
      fprintf(stderr, "mpi_program: rank %d read a wrong byte at %ld\n", rank, i);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    long all = 0;
    MPI_Allreduce(&bytes, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("%ld %.9f %.9f\n", all, seconds[0], seconds[1]);
  }
  must(MPI_File_close(&file), "close");
  if (type != MPI_BYTE) MPI_Type_free(&type);
  MPI_Info_free(&info);
  free(memory);
  MPI_Finalize();
  return 0;
}
