// SPDX-License-Identifier: Apache-2.0
// Prints the number of bytes by which a rank's memory has grown at the most in collective accesses in two phases of three rounds and more.
//   memory PREFIX BUFFER bytes|pages|irregular|same     BUFFER: cb_buffer_size. bytes, pages: pieces of 1 and 4096 bytes, dealt to the ranks
//                                                       in turn; irregular: of 8 bytes, and no level describes them; same: all ranks read
//                                                       the same bytes
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
static long buffer_bytes;
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
  char value[32];
  snprintf(value, sizeof value, "%ld", buffer_bytes);
  MPI_Info_set(info, "cb_buffer_size", value);
  OK(MPI_File_set_view(file, at, MPI_BYTE, type, "native", info));
  MPI_Info_free(&info);
}

static long size_of_access(long part_of_file) { return buffer_bytes * 5 / 2 / ranks / part_of_file; } /* three rounds */

static long resident; /* KiB, since begin() */

static void begin(void) {
  resident = status_kib("VmRSS:");
  forget_peak();
}

static void say_growth(void) {
  const long grown = status_kib("VmHWM:") - resident;
  long most = 0;
  MPI_Reduce(&grown, &most, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%ld\n", most * 1024);
}

/* Writes and reads `size` bytes through the view. */
static void measure(MPI_Offset at, MPI_Datatype type, long size) {
  char *bytes = malloc(size);
  CHECK(bytes != NULL);
  set_view(at, type);
  for (long i = 0; i < size; ++i) bytes[i] = byte_at(i, rank);
  begin();
  OK(MPI_File_write_at_all(file, 0, bytes, (int)size, MPI_BYTE, MPI_STATUS_IGNORE));
  memset(bytes, 0, size);
  OK(MPI_File_read_at_all(file, 0, bytes, (int)size, MPI_BYTE, MPI_STATUS_IGNORE));
  say_growth();
  for (long i = 0; i < size; ++i) CHECK(bytes[i] == byte_at(i, rank));
  free(bytes);
}

/* Each rank has one piece of each group of pieces. */
static void regular(int piece) {
  MPI_Datatype block, every;
  OK(MPI_Type_contiguous(piece, MPI_BYTE, &block));
  OK(MPI_Type_create_resized(block, 0, ranks * piece, &every));
  OK(MPI_Type_commit(&every));
  measure(rank * piece, every, size_of_access(1) / piece * piece);
  MPI_Type_free(&block);
  MPI_Type_free(&every);
}

/* Pieces of 8 bytes, whose distances no level describes. */
static void irregular(void) {
  enum { PIECES = 4000, ROOM = 24 };
  static MPI_Aint places[PIECES];
  MPI_Datatype pieces, tile;
  for (long i = 0; i < PIECES; ++i) places[i] = (i * ranks + rank) * ROOM + (i * i % 7 % 3) * 8;
  OK(MPI_Type_create_hindexed_block(PIECES, 8, places, MPI_BYTE, &pieces));
  OK(MPI_Type_create_resized(pieces, 0, (MPI_Aint)PIECES * ranks * ROOM, &tile));
  OK(MPI_Type_commit(&tile));
  measure(0, tile, size_of_access(ROOM / 8) / 8 * 8);
  MPI_Type_free(&pieces);
  MPI_Type_free(&tile);
}

/* All ranks read the same bytes, and one that is far away, so that their accesses look sparse. */
static void same_bytes(void) {
  MPI_Datatype type;
  const long same = buffer_bytes / 2;
  int lengths[2] = {(int)same, 1};
  MPI_Aint places[2] = {0, 64 * same};
  char *bytes = calloc(1, same + 1);
  CHECK(bytes != NULL);
  OK(MPI_Type_create_hindexed(2, lengths, places, MPI_BYTE, &type));
  OK(MPI_Type_commit(&type));
  set_view(0, MPI_BYTE);
  for (long i = 0; i < same; ++i) bytes[i] = byte_at(i, 5);
  if (rank == 0) {
    OK(MPI_File_write_at(file, 0, bytes, same, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_write_at(file, places[1], "z", 1, MPI_BYTE, MPI_STATUS_IGNORE));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  set_view(0, type);
  memset(bytes, 0, same + 1);
  begin();
  OK(MPI_File_read_at_all(file, 0, bytes, same + 1, MPI_BYTE, MPI_STATUS_IGNORE));
  say_growth();
  for (long i = 0; i < same; ++i) CHECK(bytes[i] == byte_at(i, 5));
  CHECK(bytes[same] == 'z');
  MPI_Type_free(&type);
  free(bytes);
}

int main(int argc, char **argv) {
  char path[512];
  MPI_Info info;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(argc == 4);
  snprintf(path, sizeof path, "%s/memory", argv[1]);
  buffer_bytes = atol(argv[2]);
  const char *what = argv[3];
  MPI_Info_create(&info);
  MPI_Info_set(info, "cb_nodes", "1");
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file));
  MPI_Info_free(&info);
  if (strcmp(what, "bytes") == 0) regular(1);
  if (strcmp(what, "pages") == 0) regular(4096);
  if (strcmp(what, "irregular") == 0) irregular();
  if (strcmp(what, "same") == 0) same_bytes();
  OK(MPI_File_close(&file));
  MPI_Finalize();
  return 0;
}
