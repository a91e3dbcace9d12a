// SPDX-License-Identifier: Apache-2.0
// A program that uses no file: output before "begun" comes from MPI_Init.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  fputs("begun\n", stderr);
  MPI_File file;
  const int failed = argc > 1 && MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS;
  MPI_Finalize();
  return failed;
}
