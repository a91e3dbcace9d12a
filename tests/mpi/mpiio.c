// SPDX-License-Identifier: Apache-2.0
// MPI-IO on a file system of Spate: each group of functions, on any number of ranks, under any MPI.
//   mpiio PREFIX       files below PREFIX, such as /spate or spate:
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition);             \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                      \
    }                                                                                    \
  } while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

static int rank, ranks;
static const char *prefix;

static const char *path(const char *name) {
  static char text[4][512];
  static int next;
  char *out = text[next++ % 4];
  snprintf(out, sizeof text[0], "%s/%s", prefix, name);
  return out;
}

static int class_of(int code) {
  int class = -1;
  MPI_Error_class(code, &class);
  return class;
}

static int count_of(MPI_Status *status, MPI_Datatype type) {
  int count = -1;
  MPI_Get_count(status, type, &count);
  return count;
}

static MPI_File opened(const char *name, int amode) {
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path(name), amode, MPI_INFO_NULL, &file));
  return file;
}

static void whole_files(void) {
  MPI_File file = opened("whole", MPI_MODE_CREATE | MPI_MODE_RDWR);
  int amode = 0;
  OK(MPI_File_get_amode(file, &amode));
  CHECK(amode == (MPI_MODE_CREATE | MPI_MODE_RDWR));
  OK(MPI_File_set_size(file, 12345));
  MPI_Offset size = -1;
  OK(MPI_File_get_size(file, &size));
  CHECK(size == 12345);
  OK(MPI_File_preallocate(file, 20000));
  OK(MPI_File_get_size(file, &size));
  CHECK(size == 20000);
  OK(MPI_File_sync(file));
  MPI_Group group, world;
  int same = 0;
  OK(MPI_File_get_group(file, &group));
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  OK(MPI_Group_compare(group, world, &same));
  CHECK(same == MPI_IDENT);
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  CHECK(MPI_File_f2c(MPI_File_c2f(file)) == file);
  OK(MPI_File_close(&file));
  CHECK(file == MPI_FILE_NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    OK(MPI_File_delete(path("whole"), MPI_INFO_NULL));
    CHECK(class_of(MPI_File_delete(path("whole"), MPI_INFO_NULL)) == MPI_ERR_NO_SUCH_FILE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void explicit_and_individual(void) {
  enum { N = 1000 };
  int out[N], in[N];
  for (int i = 0; i < N; ++i) out[i] = rank * N + i;
  MPI_File file = opened("data", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  MPI_Status status;
  OK(MPI_File_write_at(file, (MPI_Offset)rank * sizeof out, out, N, MPI_INT, &status));
  CHECK(count_of(&status, MPI_INT) == N);
  MPI_Barrier(MPI_COMM_WORLD);
  const int other = (rank + 1) % ranks;
  OK(MPI_File_read_at_all(file, (MPI_Offset)other * sizeof in, in, N, MPI_INT, &status));
  CHECK(count_of(&status, MPI_INT) == N);
  for (int i = 0; i < N; ++i) CHECK(in[i] == other * N + i);
  OK(MPI_File_seek(file, (MPI_Offset)rank * sizeof out, MPI_SEEK_SET));
  OK(MPI_File_read(file, in, N / 2, MPI_INT, &status));
  MPI_Offset position = -1;
  OK(MPI_File_get_position(file, &position));
  CHECK(position == (MPI_Offset)(rank * sizeof out + sizeof out / 2));
  OK(MPI_File_read_all(file, in + N / 2, N / 2, MPI_INT, MPI_STATUS_IGNORE));
  CHECK(memcmp(in, out, sizeof in) == 0);
  OK(MPI_File_seek(file, -4, MPI_SEEK_END));
  OK(MPI_File_read(file, in, N, MPI_INT, &status));
  CHECK(count_of(&status, MPI_INT) == 1 && in[0] == ranks * N - 1);
  CHECK(class_of(MPI_File_seek(file, -1, MPI_SEEK_SET)) == MPI_ERR_ARG);
  CHECK(class_of(MPI_File_read_at(file, -1, in, 1, MPI_INT, &status)) == MPI_ERR_ARG);
  MPI_Request request;
  OK(MPI_File_iread_at(file, (MPI_Offset)rank * sizeof in, in, N, MPI_INT, &request));
  OK(MPI_Wait(&request, &status));
  CHECK(count_of(&status, MPI_INT) == N && memcmp(in, out, sizeof in) == 0);
  OK(MPI_File_read_at_all_begin(file, (MPI_Offset)other * sizeof in, in, N, MPI_INT));
  OK(MPI_File_read_at_all_end(file, in, &status));
  CHECK(count_of(&status, MPI_INT) == N && in[1] == other * N + 1);
  OK(MPI_File_close(&file));
  CHECK(class_of(MPI_File_open(MPI_COMM_WORLD, path("data"), MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) == MPI_ERR_NO_SUCH_FILE);
  CHECK(file == MPI_FILE_NULL);
}

/* Rows of all ranks by turns, in blocks of `block` ints; with and without two phases. */
static void columns(int block, const char *how) {
  enum { N = 6000 };
  int *out = malloc(N * sizeof *out), *in = malloc(N * sizeof *in);
  for (int i = 0; i < N; ++i) out[i] = rank * N + i;
  MPI_Datatype bare, type;
  OK(MPI_Type_vector(N / block, block, block * ranks, MPI_INT, &bare));
  OK(MPI_Type_create_resized(bare, 0, (MPI_Aint)N * ranks * sizeof(int), &type));
  MPI_Type_free(&bare);
  OK(MPI_Type_commit(&type));
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_write", how);
  MPI_Info_set(info, "romio_cb_read", how);
  MPI_Info_set(info, "cb_nodes", "2");
  MPI_Info_set(info, "cb_buffer_size", "8192");
  MPI_Info_set(info, "striping_unit", "4096");
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path("columns"), MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
  OK(MPI_File_set_view(file, 8 + (MPI_Offset)rank * block * sizeof(int), MPI_INT, type, "native", MPI_INFO_NULL));
  MPI_Status status;
  OK(MPI_File_write_all(file, out, N, MPI_INT, &status));
  CHECK(count_of(&status, MPI_INT) == N);
  memset(in, 0, N * sizeof *in);
  OK(MPI_File_read_at_all(file, 0, in, N, MPI_INT, &status));
  CHECK(count_of(&status, MPI_INT) == N && memcmp(in, out, N * sizeof *in) == 0);
  /* No bytes exist beyond the end. */
  OK(MPI_File_read_at_all(file, N - 10, in, N, MPI_INT, &status));
  CHECK(count_of(&status, MPI_INT) == 10 && memcmp(in, out + N - 10, 10 * sizeof *in) == 0);
  MPI_Offset byte = -1;
  OK(MPI_File_get_byte_offset(file, block, &byte));
  CHECK(byte == 8 + (MPI_Offset)(rank * block + block * ranks) * (MPI_Offset)sizeof(int));
  /* The whole file without a view. */
  OK(MPI_File_set_view(file, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  for (int piece = 0; piece < N / block; ++piece) {
    for (int from = 0; from < ranks; ++from) {
      OK(MPI_File_read(file, in, block, MPI_INT, &status));
      for (int i = 0; i < block; ++i) CHECK(in[i] == from * N + piece * block + i);
    }
    piece += 97;
    OK(MPI_File_seek(file, (MPI_Offset)(piece + 1) * block * ranks, MPI_SEEK_SET));
  }
  /* Memory in pieces: every second int. */
  MPI_Datatype sparse;
  OK(MPI_Type_vector(N / 2, 1, 2, MPI_INT, &sparse));
  OK(MPI_Type_commit(&sparse));
  OK(MPI_File_set_view(file, 8 + (MPI_Offset)rank * block * sizeof(int), MPI_INT, type, "native", MPI_INFO_NULL));
  memset(in, 0, N * sizeof *in);
  OK(MPI_File_read_all(file, in, 1, sparse, &status));
  for (int i = 0; i < N; ++i) CHECK(in[i] == (i % 2 == 0 ? out[i / 2] : 0));
  OK(MPI_File_write_at_all(file, 0, in, 1, sparse, &status));
  OK(MPI_File_read_at(file, 0, in, N / 2, MPI_INT, &status));
  CHECK(memcmp(in, out, N / 2 * sizeof *in) == 0);
  MPI_Type_free(&sparse);
  MPI_Type_free(&type);
  MPI_Info_free(&info);
  OK(MPI_File_close(&file));
  if (rank == 0) OK(MPI_File_delete(path("columns"), MPI_INFO_NULL));
  MPI_Barrier(MPI_COMM_WORLD);
  free(out);
  free(in);
}

static void shared_pointers(void) {
  MPI_File file = opened("log", MPI_MODE_CREATE | MPI_MODE_RDWR);
  int record[4] = {rank, rank, rank, rank};
  OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  for (int i = 0; i < 5; ++i) OK(MPI_File_write_shared(file, record, 4, MPI_INT, MPI_STATUS_IGNORE));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Offset position = -1;
  OK(MPI_File_get_position_shared(file, &position));
  CHECK(position == 20 * ranks);
  int *all = malloc(20 * ranks * sizeof *all), seen = 0;
  OK(MPI_File_read_at(file, 0, all, 20 * ranks, MPI_INT, MPI_STATUS_IGNORE));
  for (int i = 0; i < 5 * ranks; ++i) {
    for (int j = 1; j < 4; ++j) CHECK(all[4 * i + j] == all[4 * i]);
    seen += all[4 * i] == rank;
  }
  CHECK(seen == 5);
  free(all);
  OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
  OK(MPI_File_write_ordered(file, record, rank % 2 + 1, MPI_INT, MPI_STATUS_IGNORE));
  OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
  int back[2] = {-1, -1};
  OK(MPI_File_read_ordered(file, back, rank % 2 + 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK(back[0] == rank && back[1] == (rank % 2 == 1 ? rank : -1));
  OK(MPI_File_close(&file));
  if (rank == 0) OK(MPI_File_delete(path("log"), MPI_INFO_NULL));
  MPI_Barrier(MPI_COMM_WORLD);
}

static void hints(void) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "striping_factor", "3");
  MPI_Info_set(info, "striping_unit", "8192");
  MPI_Info_set(info, "spate_distribution", "varstrip:64K,4K,8K");
  MPI_Info_set(info, "cb_buffer_size", "many");
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path("hints"), MPI_MODE_CREATE | MPI_MODE_WRONLY, info, &file));
  MPI_Info_free(&info);
  OK(MPI_File_get_info(file, &info));
  char value[100];
  int found = 0;
  OK(MPI_Info_get(info, "striping_factor", 99, value, &found));
  CHECK(found && strcmp(value, "3") == 0);
  OK(MPI_Info_get(info, "striping_unit", 99, value, &found));
  CHECK(found && strcmp(value, "8192") == 0);
  OK(MPI_Info_get(info, "spate_distribution", 99, value, &found));
  CHECK(found && strcmp(value, "varstrip:64 KiB,4 KiB,8 KiB") == 0);
  OK(MPI_Info_get(info, "romio_visibility_immediate", 99, value, &found));
  CHECK(found && strcmp(value, "true") == 0);
  MPI_Info_free(&info);
  int x = 0;
  CHECK(class_of(MPI_File_read(file, &x, 1, MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_ACCESS);
  OK(MPI_File_close(&file)); /* the file stays: mpiio.py looks at its layout */
}

static int handled;
static void handler(MPI_File *file, int *code, ...) {
  (void)file;
  handled = class_of(*code);
}

static void errors(void) {
  MPI_File file;
  int x = 0;
  CHECK(class_of(MPI_File_open(MPI_COMM_WORLD, path("none/x"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file)) == MPI_ERR_NO_SUCH_FILE);
  CHECK(class_of(MPI_File_open(MPI_COMM_WORLD, path("x"), MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_INFO_NULL, &file)) == MPI_ERR_AMODE);
  if (ranks > 1) {
    CHECK(class_of(MPI_File_open(MPI_COMM_WORLD, path(rank == 1 ? "other" : "one"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file)) == MPI_ERR_NOT_SAME);
    file = opened("unequal", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    CHECK(class_of(MPI_File_set_size(file, rank)) == MPI_ERR_NOT_SAME);
    /* One rank's arguments are wrong: all fail, none hangs. */
    CHECK(class_of(MPI_File_write_at_all(file, rank == 1 ? -1 : 0, &x, 1, MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_ARG);
    OK(MPI_File_close(&file));
  }
  file = opened("errors", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  MPI_Errhandler mine;
  OK(MPI_File_create_errhandler(handler, &mine));
  OK(MPI_File_set_errhandler(file, mine));
  CHECK(class_of(MPI_File_seek(file, -1, MPI_SEEK_SET)) == MPI_ERR_ARG);
  CHECK(handled == MPI_ERR_ARG);
  char text[MPI_MAX_ERROR_STRING];
  int size = 0;
  OK(MPI_Error_string(MPI_File_seek(file, -1, MPI_SEEK_SET), text, &size));
#ifdef OPEN_MPI /* MPICH 4.0 does not show texts that are added to its own classes */
  CHECK(strstr(text, "spate: ") != NULL);
#endif
  CHECK(class_of(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "unheard of", MPI_INFO_NULL)) == MPI_ERR_UNSUPPORTED_DATAREP);
  MPI_Errhandler_free(&mine);
  OK(MPI_File_close(&file));
}

static void atomicity(void) {
  MPI_File file = opened("atomic", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
  OK(MPI_File_set_atomicity(file, 1));
  int flag = 0;
  OK(MPI_File_get_atomicity(file, &flag));
  CHECK(flag == 1);
  enum { N = 100000 };
  char *bytes = malloc(N);
  memset(bytes, 'a' + rank, N);
  for (int i = 0; i < 5; ++i) OK(MPI_File_write_at(file, 0, bytes, N, MPI_CHAR, MPI_STATUS_IGNORE));
  OK(MPI_File_read_at(file, 0, bytes, N, MPI_CHAR, MPI_STATUS_IGNORE));
  for (int i = 1; i < N; ++i) CHECK(bytes[i] == bytes[0]);
  free(bytes);
  OK(MPI_File_close(&file));
}

/* A file that is not Spate's is MPI's own. */
static void elsewhere(void) {
  char name[100];
  int pid = (int)getpid();
  MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
  snprintf(name, sizeof name, "/tmp/spate-mpiio-%d", pid);
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
  int x = rank;
  OK(MPI_File_write_at_all(file, (MPI_Offset)rank * 4, &x, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK(access(name, F_OK) == 0);
  OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  prefix = argc > 1 ? argv[1] : "/spate";
  whole_files();
  explicit_and_individual();
  for (int block = 1; block <= 600; block *= 10) {
    columns(block, "enable");
    columns(block, "disable");
    columns(block, "automatic");
  }
  shared_pointers();
  hints();
  errors();
  atomicity();
  elsewhere();
  MPI_Finalize();
  return 0;
}
