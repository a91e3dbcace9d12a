// SPDX-License-Identifier: Apache-2.0
// Parallel HDF5: the ranks write slabs and columns of 3-D arrays, contiguous and chunked, independently and collectively.
// Then each reads what its neighbour wrote.
//   hdf5 FILE
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition);             \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                      \
    }                                                                                    \
  } while (0)

enum { A = 12, B = 20, C = 30 };
static int rank, ranks;

/* Selects the part of rank `whose`: slabs of the first dimension or columns of the last. */
static hid_t part(hid_t space, int whose, int columns, hsize_t count[3]) {
  hsize_t start[3] = {0, 0, 0};
  count[0] = A, count[1] = B, count[2] = C;
  const int d = columns ? 2 : 0;
  count[d] /= (hsize_t)ranks;
  start[d] = count[d] * (hsize_t)whose;
  CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0);
  return H5Screate_simple(3, count, NULL);
}

static void dataset(hid_t file, int chunked, int collective, int columns) {
  char name[60];
  snprintf(name, sizeof name, "chunked%d-collective%d-columns%d", chunked, collective, columns);
  const hsize_t whole[3] = {A, B, C}, chunk[3] = {4, 5, 6};
  hid_t space = H5Screate_simple(3, whole, NULL), make = H5Pcreate(H5P_DATASET_CREATE), how = H5Pcreate(H5P_DATASET_XFER);
  if (chunked) CHECK(H5Pset_chunk(make, 3, chunk) >= 0);
  CHECK(H5Pset_dxpl_mpio(how, collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT) >= 0);
  hid_t set = H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, make, H5P_DEFAULT);
  CHECK(set >= 0);
  hsize_t count[3];
  hid_t memory = part(space, rank, columns, count);
  const int size = (int)(count[0] * count[1] * count[2]);
  int *values = malloc((size_t)size * sizeof *values);
  for (int i = 0; i < size; ++i) values[i] = rank * 100000 + i;
  CHECK(H5Dwrite(set, H5T_NATIVE_INT, memory, space, how, values) >= 0);
  MPI_Barrier(MPI_COMM_WORLD);
  const int other = (rank + 1) % ranks;
  hid_t there = part(space, other, columns, count);
  CHECK(H5Dread(set, H5T_NATIVE_INT, there, space, how, values) >= 0);
  for (int i = 0; i < size; ++i) CHECK(values[i] == other * 100000 + i);
  free(values);
  H5Sclose(there), H5Sclose(memory), H5Sclose(space), H5Pclose(make), H5Pclose(how);
  CHECK(H5Dclose(set) >= 0);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(argc == 2);
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  CHECK(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL) >= 0);
  hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
  CHECK(file >= 0);
  for (int i = 0; i < 8; ++i) dataset(file, i & 1, i >> 1 & 1, i >> 2);
  CHECK(H5Fclose(file) >= 0);
  file = H5Fopen(argv[1], H5F_ACC_RDONLY, access);
  CHECK(file >= 0);
  H5G_info_t info;
  CHECK(H5Gget_info(file, &info) >= 0 && info.nlinks == 8);
  CHECK(H5Fclose(file) >= 0);
  H5Pclose(access);
  MPI_Finalize();
  return 0;
}
