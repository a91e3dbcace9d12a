// SPDX-License-Identifier: Apache-2.0
// Many ranks open a file; then either the aggregators alone move the bytes, or each rank its own.
//   opens NAME together|alone
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, ranks;

static void must(int code, int line) {
  if (code == MPI_SUCCESS) return;
  fprintf(stderr, "rank %d, line %d: error %d\n", rank, line, code);
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) must(call, __LINE__)

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 3) return 2;
  const int together = strcmp(argv[2], "together") == 0;
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_write", "enable");
  MPI_Info_set(info, "romio_cb_read", "enable");
  MPI_Info_set(info, "cb_config_list", "*:2");
  MPI_File file;
  MPI_Status status;
  OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
  int out = rank, in = -1;
  const MPI_Offset at = (MPI_Offset)rank * 4, next = (rank + 1) % ranks * 4;
  OK(together ? MPI_File_write_at_all(file, at, &out, 1, MPI_INT, &status) : MPI_File_write_at(file, at, &out, 1, MPI_INT, &status));
  OK(MPI_File_sync(file));
  MPI_Barrier(MPI_COMM_WORLD);
  OK(together ? MPI_File_read_at_all(file, next, &in, 1, MPI_INT, &status) : MPI_File_read_at(file, next, &in, 1, MPI_INT, &status));
  if (in != (rank + 1) % ranks) must(MPI_ERR_OTHER, __LINE__);
  OK(MPI_File_close(&file));
  MPI_Info_free(&info);
  MPI_Finalize();
  return 0;
}
