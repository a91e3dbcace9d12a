// SPDX-License-Identifier: Apache-2.0
// PnetCDF: the ranks write columns and slabs of a 3-D variable, collectively, independently and without waiting, and read
// what their neighbour wrote.
//   pnetcdf FILE
#include <mpi.h>
#include <pnetcdf.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

static void must(int status, int line) {
  if (status == NC_NOERR) return;
  fprintf(stderr, "rank %d, line %d: %s\n", rank, line, ncmpi_strerror(status));
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) must((call), __LINE__)

enum { A = 12, B = 20, C = 30 };

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 2) MPI_Abort(MPI_COMM_WORLD, 2);
  int file, dimensions[3], variables[3];
  OK(ncmpi_create(MPI_COMM_WORLD, argv[1], NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file));
  OK(ncmpi_def_dim(file, "a", A, &dimensions[0]));
  OK(ncmpi_def_dim(file, "b", B, &dimensions[1]));
  OK(ncmpi_def_dim(file, "c", C, &dimensions[2]));
  const char *names[3] = {"collective", "independent", "later"};
  for (int v = 0; v < 3; ++v) OK(ncmpi_def_var(file, names[v], NC_INT, 3, dimensions, &variables[v]));
  OK(ncmpi_enddef(file));
  const MPI_Offset count[3] = {A, B, C / ranks};
  const MPI_Offset mine[3] = {0, 0, rank * (C / ranks)}, theirs[3] = {0, 0, (rank + 1) % ranks * (C / ranks)};
  const int size = A * B * (C / ranks);
  int *values = malloc((size_t)size * sizeof *values), *got = malloc((size_t)size * sizeof *got);
  for (int i = 0; i < size; ++i) values[i] = rank * 100000 + i;
  OK(ncmpi_put_vara_int_all(file, variables[0], mine, count, values));
  OK(ncmpi_begin_indep_data(file));
  OK(ncmpi_put_vara_int(file, variables[1], mine, count, values));
  OK(ncmpi_end_indep_data(file));
  int request, status;
  OK(ncmpi_iput_vara_int(file, variables[2], mine, count, values, &request));
  OK(ncmpi_wait_all(file, 1, &request, &status));
  OK(ncmpi_close(file));
  OK(ncmpi_open(MPI_COMM_WORLD, argv[1], NC_NOWRITE, MPI_INFO_NULL, &file));
  for (int v = 0; v < 3; ++v) {
    OK(ncmpi_get_vara_int_all(file, variables[v], theirs, count, got));
    for (int i = 0; i < size; ++i) {
      if (got[i] == (rank + 1) % ranks * 100000 + i) continue;
      fprintf(stderr, "rank %d: wrong value in %s\n", rank, names[v]);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  OK(ncmpi_close(file));
  free(values);
  free(got);
  MPI_Finalize();
  return 0;
}
