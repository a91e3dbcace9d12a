/* SPDX-License-Identifier: Apache-2.0 */
/* array_program FILE LAYOUT WAY 0 SIDE RUNS: the ranks write and then read a 3-D array of SIDE^3 doubles, of which each has
 * a block, by the library that it was compiled for (-DUSE_HDF5, -DUSE_NETCDF, -DUSE_PNETCDF), RUNS times. Prints
 * "BYTES SECONDS SECONDS" for each run: written and read, of the slowest rank, with opening and closing the file.
 *   LAYOUT    contiguous, or chunked: chunks of the ranks' blocks (not with PnetCDF)
 *   WAY       independent or collective */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(USE_HDF5)
#include <hdf5.h>
typedef hsize_t extent;
#elif defined(USE_NETCDF)
#include <netcdf.h>
#include <netcdf_par.h>
typedef size_t extent;
#else
#include <pnetcdf.h>
typedef MPI_Offset extent;
#endif

static int rank, ranks, chunked, together;
static extent whole[3], start[3], count[3];

static void must(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "array_program: rank %d: %s fails\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

#if defined(USE_HDF5)
static void move(const char *path, int write, double *values) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), make = H5Pcreate(H5P_DATASET_CREATE), how = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  H5Pset_dxpl_mpio(how, together ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
  if (chunked) H5Pset_chunk(make, 3, count);
  hid_t file = write ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access) : H5Fopen(path, H5F_ACC_RDONLY, access);
  must(file >= 0, "opening the file");
  hid_t space = H5Screate_simple(3, whole, NULL), memory = H5Screate_simple(3, count, NULL);
  hid_t set = write ? H5Dcreate2(file, "array", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, make, H5P_DEFAULT) : H5Dopen2(file, "array", H5P_DEFAULT);
  must(set >= 0, "opening the data set");
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  must((write ? H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, how, values) : H5Dread(set, H5T_NATIVE_DOUBLE, memory, space, how, values)) >= 0,
       write ? "H5Dwrite" : "H5Dread");
  must(H5Dclose(set) >= 0 && H5Fclose(file) >= 0, "closing the file");
  H5Sclose(space), H5Sclose(memory), H5Pclose(access), H5Pclose(make), H5Pclose(how);
}
#elif defined(USE_NETCDF)
static void move(const char *path, int write, double *values) {
  int file, variable, dimensions[3];
  if (write) {
    must(nc_create_par(path, NC_CLOBBER | NC_NETCDF4, MPI_COMM_WORLD, MPI_INFO_NULL, &file) == NC_NOERR, "nc_create_par");
    must(nc_def_dim(file, "x", whole[0], &dimensions[0]) == NC_NOERR && nc_def_dim(file, "y", whole[1], &dimensions[1]) == NC_NOERR &&
             nc_def_dim(file, "z", whole[2], &dimensions[2]) == NC_NOERR && nc_def_var(file, "array", NC_DOUBLE, 3, dimensions, &variable) == NC_NOERR,
         "defining the array");
    must(nc_def_var_chunking(file, variable, chunked ? NC_CHUNKED : NC_CONTIGUOUS, count) == NC_NOERR, "nc_def_var_chunking");
    must(nc_enddef(file) == NC_NOERR, "nc_enddef");
  } else {
    must(nc_open_par(path, NC_NOWRITE, MPI_COMM_WORLD, MPI_INFO_NULL, &file) == NC_NOERR && nc_inq_varid(file, "array", &variable) == NC_NOERR,
         "nc_open_par");
  }
  must(nc_var_par_access(file, variable, together ? NC_COLLECTIVE : NC_INDEPENDENT) == NC_NOERR, "nc_var_par_access");
  must((write ? nc_put_vara_double(file, variable, start, count, values) : nc_get_vara_double(file, variable, start, count, values)) == NC_NOERR,
       write ? "nc_put_vara_double" : "nc_get_vara_double");
  must(nc_close(file) == NC_NOERR, "nc_close");
}
#else
static void move(const char *path, int write, double *values) {
  int file, variable, dimensions[3], status;
  if (write) {
    must(ncmpi_create(MPI_COMM_WORLD, path, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &file) == NC_NOERR, "ncmpi_create");
    must(ncmpi_def_dim(file, "x", whole[0], &dimensions[0]) == NC_NOERR && ncmpi_def_dim(file, "y", whole[1], &dimensions[1]) == NC_NOERR &&
             ncmpi_def_dim(file, "z", whole[2], &dimensions[2]) == NC_NOERR &&
             ncmpi_def_var(file, "array", NC_DOUBLE, 3, dimensions, &variable) == NC_NOERR && ncmpi_enddef(file) == NC_NOERR,
         "defining the array");
  } else {
    must(ncmpi_open(MPI_COMM_WORLD, path, NC_NOWRITE, MPI_INFO_NULL, &file) == NC_NOERR && ncmpi_inq_varid(file, "array", &variable) == NC_NOERR,
         "ncmpi_open");
  }
  if (!together) must(ncmpi_begin_indep_data(file) == NC_NOERR, "ncmpi_begin_indep_data");
  if (together)
    status = write ? ncmpi_put_vara_double_all(file, variable, start, count, values) : ncmpi_get_vara_double_all(file, variable, start, count, values);
  else
    status = write ? ncmpi_put_vara_double(file, variable, start, count, values) : ncmpi_get_vara_double(file, variable, start, count, values);
  must(status == NC_NOERR, write ? "putting the array" : "getting the array");
  if (!together) must(ncmpi_end_indep_data(file) == NC_NOERR, "ncmpi_end_indep_data");
  must(ncmpi_close(file) == NC_NOERR, "ncmpi_close");
}
#endif

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  must(argc == 7, "usage: array_program FILE LAYOUT WAY 0 SIDE RUNS;");
  chunked = !strcmp(argv[2], "chunked");
  together = !strcmp(argv[3], "collective");
  int grid[3] = {0, 0, 0}, left = rank;
  MPI_Dims_create(ranks, 3, grid);
  for (int d = 2; d >= 0; left /= grid[d], --d) {
    count[d] = (extent)(atoi(argv[5]) / grid[d]);
    whole[d] = count[d] * (extent)grid[d];
    start[d] = count[d] * (extent)(left % grid[d]);
  }
  const long cells = (long)(count[0] * count[1] * count[2]);
  double *values = malloc((size_t)cells * sizeof *values);
  for (int run = 0; run < atoi(argv[6]); ++run) {
    double seconds[2];
    for (int read = 0; read < 2; ++read) {
      for (long i = 0; i < cells; ++i) values[i] = read ? 0 : (double)(rank * cells + i + run);
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      move(argv[1], !read, values);
      const double took = MPI_Wtime() - begin;
      MPI_Allreduce(&took, &seconds[read], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    for (long i = 0; i < cells; ++i) must(values[i] == (double)(rank * cells + i + run), "reading what was written");
    if (rank == 0) printf("%ld %.9f %.9f\n", cells * ranks * 8, seconds[0], seconds[1]);
  }
  free(values);
  MPI_Finalize();
  return 0;
}
