// SPDX-License-Identifier: Apache-2.0
// Collective accesses in two phases need only the memory of cb_buffer_size, even if pieces are so small that their list is much longer than
// their data, and if all ranks want the same bytes.
//   memory PREFIX
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

enum { PIECES = 256 * 1024, SAME = 512 * 1024 };
static const long BOUND_KIB = 24 * 1024; /* the buffer has 1 MiB; the MPI library has buffers, too */
static int rank, ranks;
static MPI_File file;

static char byte_at(long i, int of_rank) { return (char)(i * 31 + i / 251 + of_rank * 7); }

/* Returns a value of /proc/self/status, in KiB. */
static long status_kib(const char *name) {
  FILE *status = fopen("/proc/self/status", "r");
  char line[256];
  long kib = -1;
  CHECK(status != NULL);
  while (fgets(line, sizeof line, status) != NULL)
    if (strncmp(line, name, strlen(name)) == 0) kib = atol(line + strlen(name));
  fclose(status);
  CHECK(kib > 0);
  return kib;
}

static void forget_peak(void) {
  FILE *refs = fopen("/proc/self/clear_refs", "w");
  CHECK(refs != NULL && fputs("5", refs) >= 0 && fclose(refs) == 0);
}

static void set_view(MPI_Offset at, MPI_Datatype type) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_write", "enable");
  MPI_Info_set(info, "romio_cb_read", "enable");
  MPI_Info_set(info, "cb_buffer_size", "1048576");
  OK(MPI_File_set_view(file, at, MPI_BYTE, type, "native", info));
  MPI_Info_free(&info);
}

/* Each rank has one byte of each group of bytes. */
static void small_pieces(void) {
  MPI_Datatype every;
  char *bytes = malloc(PIECES);
  CHECK(bytes != NULL);
  OK(MPI_Type_create_resized(MPI_BYTE, 0, ranks, &every));
  OK(MPI_Type_commit(&every));
  set_view(rank, every);
  for (long i = 0; i < PIECES; ++i) bytes[i] = byte_at(i, rank);
  OK(MPI_File_write_at_all(file, 0, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE)); /* makes the first connections */
  const long before = status_kib("VmRSS:");
  forget_peak();
  OK(MPI_File_write_at_all(file, 0, bytes, PIECES, MPI_BYTE, MPI_STATUS_IGNORE));
  memset(bytes, 0, PIECES);
  OK(MPI_File_read_at_all(file, 0, bytes, PIECES, MPI_BYTE, MPI_STATUS_IGNORE));
  const long grown = status_kib("VmHWM:") - before;
  if (grown > BOUND_KIB) fprintf(stderr, "rank %d: %ld KiB more\n", rank, grown);
  CHECK(grown <= BOUND_KIB);
  for (long i = 0; i < PIECES; ++i) CHECK(bytes[i] == byte_at(i, rank));
  MPI_Type_free(&every);
  free(bytes);
}

/* All ranks read the same bytes, and one that is far away, so that their accesses look sparse. */
static void same_bytes(void) {
  MPI_Datatype type;
  int lengths[2] = {SAME, 1};
  MPI_Aint places[2] = {0, 64L * SAME};
  char *bytes = calloc(1, SAME + 1);
  CHECK(bytes != NULL);
  OK(MPI_Type_create_hindexed(2, lengths, places, MPI_BYTE, &type));
  OK(MPI_Type_commit(&type));
  set_view(0, MPI_BYTE);
  for (long i = 0; i < SAME; ++i) bytes[i] = byte_at(i, 5);
  if (rank == 0) {
    OK(MPI_File_write_at(file, 0, bytes, SAME, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_write_at(file, places[1], "z", 1, MPI_BYTE, MPI_STATUS_IGNORE));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  set_view(0, type);
  memset(bytes, 0, SAME + 1);
  OK(MPI_File_read_at_all(file, 0, bytes, SAME + 1, MPI_BYTE, MPI_STATUS_IGNORE));
  for (long i = 0; i < SAME; ++i) CHECK(bytes[i] == byte_at(i, 5));
  CHECK(bytes[SAME] == 'z');
  MPI_Type_free(&type);
  free(bytes);
}

int main(int argc, char **argv) {
  char path[512];
  MPI_Info info;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(argc == 2);
  snprintf(path, sizeof path, "%s/memory", argv[1]);
  MPI_Info_create(&info);
  MPI_Info_set(info, "cb_nodes", "1");
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
  MPI_Info_free(&info);
  small_pieces();
  same_bytes();
  OK(MPI_File_close(&file));
  MPI_Finalize();
  return 0;
}
