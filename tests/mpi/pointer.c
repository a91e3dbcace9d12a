// SPDX-License-Identifier: Apache-2.0
// Two ranks use the shared pointer of a file, the second one after somebody else has had time for its file.
//   pointer FOLDER GO
// Rank 0 prints "ready" after its first use of the pointer. Rank 1 begins when the local file GO exists. Rank 1 prints whether its write failed.
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, outcome = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char name[4096];
  snprintf(name, sizeof name, "%s/log", argv[1]);
  MPI_File file;
  if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS) return 2;
  if (rank == 0) {
    outcome = MPI_File_write_shared(file, "0", 1, MPI_CHAR, MPI_STATUS_IGNORE);
    printf("ready\n");
    fflush(stdout);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    for (int i = 0; i < 24000 && access(argv[2], F_OK) != 0; ++i) usleep(10000);
    outcome = MPI_File_write_shared(file, "1", 1, MPI_CHAR, MPI_STATUS_IGNORE);
    printf("%s\n", outcome == MPI_SUCCESS ? "written" : "refused");
    outcome = 0;
  }
  MPI_File_close(&file);
  MPI_Finalize();
  return outcome == MPI_SUCCESS ? 0 : 3;
}
