// SPDX-License-Identifier: Apache-2.0
// NetCDF-4 over parallel HDF5: the ranks write columns of a 3-D variable, collectively and independently, and read
// what their neighbour wrote.
//   netcdf FILE
#include <mpi.h>
#include <netcdf.h>
#include <netcdf_par.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

static void must(int status, int line) {
  if (status == NC_NOERR) return;
  fprintf(stderr, "rank %d, line %d: %s\n", rank, line, nc_strerror(status));
  MPI_Abort(MPI_COMM_WORLD, 1);
}
#define OK(call) must((call), __LINE__)

enum { A = 12, B = 20, C = 30 };

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 2) MPI_Abort(MPI_COMM_WORLD, 2);
  int file, dimensions[3], variables[2];
  OK(nc_create_par(argv[1], NC_CLOBBER | NC_NETCDF4, MPI_COMM_WORLD, MPI_INFO_NULL, &file));
  OK(nc_def_dim(file, "a", A, &dimensions[0]));
  OK(nc_def_dim(file, "b", B, &dimensions[1]));
  OK(nc_def_dim(file, "c", C, &dimensions[2]));
  const char *names[2] = {"collective", "independent"};
  for (int v = 0; v < 2; ++v) OK(nc_def_var(file, names[v], NC_INT, 3, dimensions, &variables[v]));
  OK(nc_enddef(file));
  const size_t width = (size_t)(C / ranks), count[3] = {A, B, width};
  const size_t mine[3] = {0, 0, (size_t)rank * width}, theirs[3] = {0, 0, (size_t)((rank + 1) % ranks) * width};
  const int size = A * B * (C / ranks);
  int *values = malloc((size_t)size * sizeof *values), *got = malloc((size_t)size * sizeof *got);
  for (int i = 0; i < size; ++i) values[i] = rank * 100000 + i;
  for (int v = 0; v < 2; ++v) {
    OK(nc_var_par_access(file, variables[v], v == 0 ? NC_COLLECTIVE : NC_INDEPENDENT));
    OK(nc_put_vara_int(file, variables[v], mine, count, values));
  }
  OK(nc_close(file));
  OK(nc_open_par(argv[1], NC_NOWRITE, MPI_COMM_WORLD, MPI_INFO_NULL, &file));
  for (int v = 0; v < 2; ++v) {
    OK(nc_var_par_access(file, variables[v], NC_COLLECTIVE));
    OK(nc_get_vara_int(file, variables[v], theirs, count, got));
    for (int i = 0; i < size; ++i) {
      if (got[i] == (rank + 1) % ranks * 100000 + i) continue;
      fprintf(stderr, "rank %d: wrong value in %s\n", rank, names[v]);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  OK(nc_close(file));
  free(values);
  free(got);
  MPI_Finalize();
  return 0;
}
