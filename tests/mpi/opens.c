// SPDX-License-Identifier: Apache-2.0
// Many ranks open a file; then either the aggregators alone move the bytes, or each rank its own.
//   opens NAME together|started|alone      started: together, by nonblocking calls and threads of the library
//   opens NAME COUNT      collective writes of interleaved pieces, so many, and the library chooses how it makes them
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void must(int code, int line) {
  if (code == MPI_SUCCESS) return;
  fprintf(stderr, "rank %d, line %d: error %d\n", rank, line, code);
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) must(call, __LINE__)

static int move(MPI_File file, const char *how, int write, MPI_Offset at, int *value) {
  MPI_Request request;
  MPI_Status status;
  if (strcmp(how, "together") == 0) return write ? MPI_File_write_at_all(file, at, value, 1, MPI_INT, &status) : MPI_File_read_at_all(file, at, value, 1, MPI_INT, &status);
  if (strcmp(how, "alone") == 0) return write ? MPI_File_write_at(file, at, value, 1, MPI_INT, &status) : MPI_File_read_at(file, at, value, 1, MPI_INT, &status);
  OK(write ? MPI_File_iwrite_at_all(file, at, value, 1, MPI_INT, &request) : MPI_File_iread_at_all(file, at, value, 1, MPI_INT, &request));
  return MPI_Wait(&request, &status);
}

/* An estimate is for two phases here, but it is not certain, so the second access tries the other way. */
enum { PIECE = 64, PIECES = 4096 };
static char memory[PIECE * PIECES];

static void write_pieces(MPI_File file, int count) {
  MPI_Datatype pieces;
  OK(MPI_Type_vector(PIECES, PIECE, PIECE * ranks, MPI_BYTE, &pieces));
  OK(MPI_Type_commit(&pieces));
  OK(MPI_File_set_view(file, (MPI_Offset)rank * PIECE, MPI_BYTE, pieces, "native", MPI_INFO_NULL));
  for (int i = 0; i < count; ++i) OK(MPI_File_write_at_all(file, 0, memory, sizeof memory, MPI_BYTE, MPI_STATUS_IGNORE));
  OK(MPI_Type_free(&pieces));
}

int main(int argc, char **argv) {
  int level = MPI_THREAD_SINGLE;
  const int wanted = argc == 3 && strcmp(argv[2], "started") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, wanted, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 3 || level < wanted) return 2;
  MPI_Info info;
  MPI_Info_create(&info);
  const int count = atoi(argv[2]);
  MPI_Info_set(info, "romio_cb_write", count > 0 ? "automatic" : "enable");
  MPI_Info_set(info, "romio_cb_read", "enable");
  MPI_Info_set(info, "cb_config_list", "*:2");
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
  if (count > 0) {
    write_pieces(file, count);
    OK(MPI_File_close(&file));
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
  }
  int out = rank, in = -1;
  const MPI_Offset at = (MPI_Offset)rank * 4, next = (rank + 1) % ranks * 4;
  OK(move(file, argv[2], 1, at, &out));
  OK(MPI_File_sync(file));
  MPI_Barrier(MPI_COMM_WORLD);
  OK(move(file, argv[2], 0, next, &in));
  if (in != (rank + 1) % ranks) must(MPI_ERR_OTHER, __LINE__);
  OK(MPI_File_close(&file));
  MPI_Info_free(&info);
  MPI_Finalize();
  return 0;
}
