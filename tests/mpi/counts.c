// SPDX-License-Identifier: Apache-2.0
// More bytes in one access than an int counts. Rank 0 reads them: alone, together with ranks that read nothing, and with a large count where MPI
// has it. A single rank also writes them; one MiB of memory stands for all.
//   counts PREFIX
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                          \
    }                                                                        \
  } while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

static int rank, ranks;
static MPI_Datatype mega; /* 1 MiB */

static int read_with_large_count(MPI_File file, char *bytes, MPI_Count size, MPI_Status *status) {
#if MPI_VERSION >= 4
  return MPI_File_read_at_c(file, 0, bytes, size, MPI_CHAR, status);
#else
  return MPI_File_read_at(file, 0, bytes, (int)(size >> 20), mega, status);
#endif
}

static void beyond_an_int(const char *name) {
  enum { MEGAS = 2049 };
  const MPI_Count many = (MPI_Count)MEGAS << 20;
  MPI_Info info;
  MPI_File file;
  MPI_Datatype again;
  MPI_Status status;
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_read", "enable");
  MPI_Info_set(info, "romio_cb_write", "enable");
  OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file));
  MPI_Info_free(&info);
  OK(MPI_Type_create_resized(mega, 0, 0, &again));
  OK(MPI_Type_commit(&again));
  char *bytes = rank == 0 ? calloc(1, (size_t)many) : NULL;
  CHECK(rank != 0 || bytes != NULL);
  for (int way = ranks == 1 ? 0 : 1; way < 4; ++way) {
    if (way == 0) {
      memset(bytes, 'w', 1 << 20);
      OK(MPI_File_write_at_all(file, 0, bytes, MEGAS, again, &status));
    } else {
      if (way == 1) OK(MPI_File_write_at(file, many - 3, "end", 3, MPI_CHAR, &status));
      MPI_Barrier(MPI_COMM_WORLD);
      const int megas = rank == 0 ? MEGAS : 0;
      if (way < 3) OK((way == 1 ? MPI_File_read_at : MPI_File_read_at_all)(file, 0, bytes, megas, mega, &status));
      if (way == 3 && rank == 0) OK(read_with_large_count(file, bytes, many, &status));
      CHECK(rank != 0 || (memcmp(bytes + many - 3, "end", 3) == 0 && bytes[many - 4] == (ranks == 1 ? 'w' : 0)));
    }
    MPI_Count count = 0;
    OK(MPI_Get_elements_x(&status, MPI_CHAR, &count));
    CHECK(rank != 0 || count == many);
    if (rank == 0) memset(bytes, 1, (size_t)many);
  }
  free(bytes);
  MPI_Type_free(&again);
  OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
  char name[512];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(argc == 2);
  snprintf(name, sizeof name, "%s/counts", argv[1]);
  OK(MPI_Type_contiguous(1 << 20, MPI_CHAR, &mega));
  OK(MPI_Type_commit(&mega));
  beyond_an_int(name);
  MPI_Type_free(&mega);
  MPI_Finalize();
  return 0;
}
