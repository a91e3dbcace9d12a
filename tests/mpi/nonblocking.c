// SPDX-License-Identifier: Apache-2.0
// Nonblocking accesses: they return while the servers stand still, go on while the program is not in MPI, and tell of failures.
//   nonblocking PREFIX FOLDER single|multiple     FOLDER: where this program and nonblocking.py tell each other how far they are
#include <limits.h>
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

enum { N = 1 << 20, MANY = 100 };
static int rank, ranks;
static const char *prefix, *folder;

static MPI_File opened(const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", prefix, name);
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
  return file;
}

static void say(const char *what) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s.%d", folder, what, rank);
  FILE *out = fopen(path, "w");
  CHECK(out != NULL);
  fclose(out);
}

/* Waits outside of MPI. */
static void wait_for(const char *what) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, what);
  while (access(path, F_OK) != 0) usleep(1000);
}

static int class_of(int code) {
  int class = -1;
  MPI_Error_class(code, &class);
  return class;
}

static int count_of(MPI_Status *status) {
  int count = -1;
  MPI_Get_count(status, MPI_BYTE, &count);
  return count;
}

/* The servers are stopped between "before" and "go". */
static void while_the_program_computes(void) {
  char *out = malloc(N), *in = calloc(1, N), *old = malloc(N);
  memset(out, 'a' + rank, N);
  memset(old, 'A' + rank, N);
  MPI_File file = opened("computes");
  OK(MPI_File_write_at_all(file, (MPI_Offset)(ranks + rank) * N, old, N, MPI_BYTE, MPI_STATUS_IGNORE));
  MPI_Barrier(MPI_COMM_WORLD);
  say("before");
  wait_for("stopped");
  MPI_Request requests[2];
  OK(MPI_File_iwrite_at(file, (MPI_Offset)rank * N, out, N, MPI_BYTE, &requests[0]));
  /* The other ranks call it at any time. */
  OK(MPI_File_iread_at_all(file, (MPI_Offset)(ranks + rank) * N, in, N, MPI_BYTE, &requests[1]));
  int done = 1;
  MPI_Status statuses[2];
  OK(MPI_Testall(2, requests, &done, statuses));
  CHECK(!done);
  MPI_Barrier(MPI_COMM_WORLD); /* MPI goes on */
  say("started");
  wait_for("go");
  OK(MPI_Waitall(2, requests, statuses));
  CHECK(count_of(&statuses[0]) == N && count_of(&statuses[1]) == N);
  CHECK(memcmp(in, old, N) == 0);
  OK(MPI_File_close(&file));
  free(out);
  free(in);
  free(old);
}

/* Many at a time, from memory in pieces to a file in pieces. */
static void many_at_a_time(void) {
  enum { INTS = 200 };
  static int out[MANY][2 * INTS], in[MANY][2 * INTS];
  MPI_File file = opened("many");
  MPI_Datatype every_other, tile;
  OK(MPI_Type_vector(INTS, 1, 2, MPI_INT, &every_other));
  OK(MPI_Type_commit(&every_other));
  OK(MPI_Type_create_resized(MPI_INT, 0, 4 * ranks, &tile));
  OK(MPI_Type_commit(&tile));
  OK(MPI_File_set_view(file, 4 * rank, MPI_INT, tile, "native", MPI_INFO_NULL));
  MPI_Request requests[MANY];
  MPI_Status statuses[MANY];
  for (int i = 0; i < MANY; ++i) {
    for (int j = 0; j < 2 * INTS; ++j) out[i][j] = (rank * MANY + i) * 1000 + j;
    OK(i % 2 ? MPI_File_iwrite(file, out[i], 1, every_other, &requests[i]) : MPI_File_iwrite_all(file, out[i], 1, every_other, &requests[i]));
  }
  for (int left = MANY; left > 0; --left) {
    int which = -1;
    OK(MPI_Waitany(MANY, requests, &which, &statuses[0]));
    CHECK(count_of(&statuses[0]) == INTS * 4);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  memset(in, 0, sizeof in);
  for (int i = 0; i < MANY; ++i) OK(MPI_File_iread_at(file, (MPI_Offset)i * INTS, in[i], 1, every_other, &requests[i]));
  OK(MPI_Waitall(MANY, requests, statuses));
  for (int i = 0; i < MANY; ++i) {
    for (int j = 0; j < 2 * INTS; ++j) CHECK(in[i][j] == (j % 2 == 0 ? out[i][j] : 0));
  }
  /* In atomic mode they take turns; those that overlap are one after the other. */
  OK(MPI_File_set_atomicity(file, 1));
  for (int i = 0; i < MANY; ++i) OK(MPI_File_iwrite_at(file, 0, out[i], 1, every_other, &requests[i]));
  OK(MPI_Waitall(MANY, requests, statuses));
  OK(MPI_File_read_at(file, 0, in[0], 1, every_other, MPI_STATUS_IGNORE));
  for (int j = 0; j < 2 * INTS; j += 2) CHECK(in[0][j] - in[0][0] == j);
  MPI_Type_free(&every_other);
  MPI_Type_free(&tile);
  OK(MPI_File_close(&file));
}

/* Nobody waits for this request except the file's close. */
static void freed_requests(void) {
  char *out = malloc(N);
  memset(out, 'x', N);
  MPI_File file = opened("freed");
  MPI_Request request;
  OK(MPI_File_iwrite_at(file, (MPI_Offset)rank * N, out, N, MPI_BYTE, &request));
  OK(MPI_Request_free(&request));
  OK(MPI_File_close(&file));
  MPI_Barrier(MPI_COMM_WORLD);
  file = opened("freed");
  char last = 0;
  OK(MPI_File_read_at(file, (MPI_Offset)((rank + 1) % ranks + 1) * N - 1, &last, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK(last == 'x');
  OK(MPI_File_close(&file));
  free(out);
}

static int handled;
static void handler(MPI_File *file, int *code, ...) {
  MPI_Offset position = 0;
  handled = class_of(*code);
  MPI_File_get_position(*file, &position); /* it may use the file */
}

static void failures(void) {
  MPI_File file = opened("failures");
  MPI_Errhandler mine;
  OK(MPI_File_create_errhandler(handler, &mine));
  OK(MPI_File_set_errhandler(file, mine));
  char byte = 'x';
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  /* Wrong arguments fail at once and leave no request. */
  CHECK(class_of(MPI_File_iwrite_at(file, -1, &byte, 1, MPI_BYTE, &request)) == MPI_ERR_ARG);
  CHECK(request == MPI_REQUEST_NULL && handled == MPI_ERR_ARG);
  /* Refusals of the servers reach the request and the file's error handler. */
  handled = 0;
  OK(MPI_File_iwrite_at(file, LLONG_MAX - 1, &byte, 1, MPI_BYTE, &request));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int code = MPI_Wait(&request, &status);
  CHECK(class_of(code) == MPI_ERR_ARG && handled == MPI_ERR_ARG);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&mine);
  OK(MPI_File_close(&file));
}

static MPI_File in_two_phases(const char *name) {
  MPI_Info info;
  MPI_Datatype tile;
  MPI_File file = opened(name);
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_write", "enable");
  MPI_Info_set(info, "romio_cb_read", "enable");
  MPI_Info_set(info, "cb_nodes", "2");
  MPI_Info_set(info, "cb_buffer_size", "4096");
  OK(MPI_Type_create_resized(MPI_INT, 0, 4 * ranks, &tile));
  OK(MPI_Type_commit(&tile));
  OK(MPI_File_set_view(file, 4 * rank, MPI_INT, tile, "native", info));
  MPI_Info_free(&info);
  MPI_Type_free(&tile);
  return file;
}

/* Collective accesses to two files at once, while the program sends messages of its own and writes by blocking calls. */
static void collective(int together) {
  enum { ROUNDS = 6, INTS = 3000 };
  static int out[2][ROUNDS][INTS], in[2][ROUNDS][INTS];
  MPI_File files[2] = {in_two_phases("first"), in_two_phases("second")};
  MPI_Request requests[2 * ROUNDS];
  MPI_Status statuses[2 * ROUNDS];
  for (int i = 0; i < 2 * ROUNDS * INTS; ++i) (&out[0][0][0])[i] = rank * 1000000 + i;
  if (rank == 1) MPI_Barrier(MPI_COMM_WORLD); /* the start waits for nobody */
  for (int i = 0; i < 2 * ROUNDS; ++i)
    OK(MPI_File_iwrite_at_all(files[i % 2], i / 2 * INTS, out[i % 2][i / 2], INTS, MPI_INT, &requests[i]));
  if (rank == 0) MPI_Barrier(MPI_COMM_WORLD);
  int sum = 1;
  for (int i = 0; i < 20; ++i) {
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_BAND, MPI_COMM_WORLD);
    OK(MPI_File_write_at_all(files[i % 2], (ROUNDS + 1) * INTS, &sum, 1, MPI_INT, MPI_STATUS_IGNORE));
  }
  CHECK(sum == 1);
  OK(MPI_Waitall(2 * ROUNDS, requests, statuses));
  for (int i = 0; i < 2 * ROUNDS; ++i) CHECK(count_of(&statuses[i]) == INTS * 4);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 2 * ROUNDS; ++i)
    OK(MPI_File_iread_at_all(files[i % 2], i / 2 * INTS, in[i % 2][i / 2], INTS, MPI_INT, &requests[2 * ROUNDS - 1 - i]));
  OK(MPI_Waitall(2 * ROUNDS, requests, statuses));
  CHECK(memcmp(in, out, sizeof in) == 0);
  /* One rank's arguments are wrong: it fails at once, the others when they wait, if the access is made together. */
  OK(MPI_File_set_info(files[0], MPI_INFO_NULL)); /* waits for what is under way */
  const int code = MPI_File_iwrite_at_all(files[0], 0, out, rank == 1 ? -1 : 1, MPI_INT, &requests[0]);
  CHECK(class_of(code) == (rank == 1 ? MPI_ERR_COUNT : MPI_SUCCESS) && (requests[0] == MPI_REQUEST_NULL) == (rank == 1));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (rank != 1) CHECK(class_of(MPI_Wait(&requests[0], statuses)) == (together ? MPI_ERR_COUNT : MPI_SUCCESS));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  /* The close waits for what nobody else waits for. */
  OK(MPI_File_iwrite_at_all(files[0], 0, out[1][0], INTS, MPI_INT, &requests[0]));
  OK(MPI_Request_free(&requests[0]));
  OK(MPI_File_close(&files[0]));
  OK(MPI_File_close(&files[1]));
  MPI_Barrier(MPI_COMM_WORLD);
  files[0] = in_two_phases("first");
  OK(MPI_File_read_at(files[0], 0, in, INTS, MPI_INT, MPI_STATUS_IGNORE));
  CHECK(memcmp(in, out[1][0], sizeof in[0][0]) == 0);
  OK(MPI_File_close(&files[0]));
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  int wanted = strcmp(argv[3], "multiple") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, level = 0;
  MPI_Init_thread(&argc, &argv, wanted, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  prefix = argv[1];
  folder = argv[2];
  CHECK(level >= wanted);
  while_the_program_computes();
  many_at_a_time();
  freed_requests();
  failures();
  collective(wanted == MPI_THREAD_MULTIPLE);
  MPI_Finalize();
  return 0;
}
