// SPDX-License-Identifier: Apache-2.0
// Collective writes in two phases while something fails. Every rank must fail in the same call, with a class of MPI's.
//   faults PREFIX killed   a rank kills itself while the others are in a collective write
//   faults PREFIX server   says "running", goes on until a write fails, says "failed", goes on until one succeeds
//   faults PREFIX leases STOP   says "running", goes on until the local file STOP exists and a write succeeds
//   faults PREFIX full     writes until there is no space; what was written before is right
//   faults PREFIX usable   empties the file, writes and reads
//   faults PREFIX missing  a file that only one rank names rightly, then one that nobody can open
// With the last argument "nonblocking" the writes are nonblocking, and a thread of the library makes them (MPI_THREAD_MULTIPLE).
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 1 << 16, ROUNDS = 4000 };

static int rank, ranks, nonblocking;
static MPI_File file;

static void fail(const char *what, int detail) {
  fprintf(stderr, "rank %d: %s (%d)\n", rank, what, detail);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void say(const char *word) {
  if (rank != 0) return;
  puts(word);
  fflush(stdout);
}

/* Returns the error class, which must be the same on all ranks. */
static int common_class(int code) {
  int class = MPI_SUCCESS;
  MPI_Error_class(code, &class);
  int own[2] = {class, -class}, most[2];
  MPI_Allreduce(own, most, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (most[0] != -most[1]) fail("ranks got different classes, this one", class);
  return class;
}

/* The ranks' blocks of 64 bytes alternate. */
static void set_view(void) {
  MPI_Datatype blocks, tile;
  MPI_Type_contiguous(64, MPI_BYTE, &blocks);
  MPI_Type_create_resized(blocks, 0, 64 * ranks, &tile);
  MPI_Type_commit(&tile);
  if (MPI_File_set_view(file, rank * 64, MPI_BYTE, tile, "native", MPI_INFO_NULL)) fail("set_view", 0);
  MPI_Type_free(&blocks);
  MPI_Type_free(&tile);
}

static char letter(int round) { return (char)('a' + (rank + round) % 26); }

static int write_round(int round) {
  static char bytes[N];
  memset(bytes, letter(round), N);
  if (!nonblocking) return MPI_File_write_at_all(file, (MPI_Offset)round * N, bytes, N, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_Request request;
  const int code = MPI_File_iwrite_at_all(file, (MPI_Offset)round * N, bytes, N, MPI_BYTE, &request);
  return code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Read in two phases and by each rank alone. */
static void verify(int round) {
  static char bytes[N];
  for (int alone = 0; alone < 2; ++alone) {
    memset(bytes, 0, N);
    const MPI_Offset at = (MPI_Offset)round * N;
    const int code = alone ? MPI_File_read_at(file, at, bytes, N, MPI_BYTE, MPI_STATUS_IGNORE)
                           : MPI_File_read_at_all(file, at, bytes, N, MPI_BYTE, MPI_STATUS_IGNORE);
    if (common_class(code) != MPI_SUCCESS) fail("read", round);
    for (int i = 0; i < N; ++i)
      if (bytes[i] != letter(round)) fail("a wrong byte", i);
  }
}

static void until_success(void) {
  int failed = 0;
  for (int round = 0; round < ROUNDS * 100; ++round) {
    const int class = common_class(write_round(round % 16));
    if (round == 0) say("running");
    if (class != MPI_SUCCESS && class != MPI_ERR_IO) fail("class", class);
    if (class != MPI_SUCCESS && !failed) say("failed");
    if (class == MPI_SUCCESS && failed) return verify(round % 16);
    failed = failed || class != MPI_SUCCESS;
  }
  fail("nothing failed, or all", failed);
}

static void until_stopped(const char *stop) {
  for (int round = 0; round < ROUNDS * 100; ++round) {
    const int stopped = access(stop, F_OK) == 0;
    const int class = common_class(write_round(round % 16));
    if (round == 0) say("running");
    if (class != MPI_SUCCESS && class != MPI_ERR_IO) fail("class", class);
    int all_know = 0;
    MPI_Allreduce(&stopped, &all_know, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (class == MPI_SUCCESS && all_know) return verify(round % 16);
  }
  fail("never stopped", ROUNDS);
}

static void until_full(void) {
  for (int round = 0; round < ROUNDS; ++round) {
    const int class = common_class(write_round(round));
    if (class == MPI_ERR_NO_SPACE && round > 10) {
      for (int before = 0; before < round; ++before) verify(before);
      return say("full");
    }
    if (class != MPI_SUCCESS) fail("class", class);
  }
  fail("never full", ROUNDS);
}

/* A full server frees the space a moment after the truncation. */
static void usable(void) {
  if (common_class(MPI_File_set_size(file, 0)) != MPI_SUCCESS) fail("set_size", 0);
  int class = MPI_ERR_NO_SPACE;
  for (int round = 0; round < ROUNDS && class == MPI_ERR_NO_SPACE; ++round) class = common_class(write_round(1));
  if (class != MPI_SUCCESS) fail("write", class);
  verify(1);
}

static void missing(const char *prefix) {
  char name[512];
  MPI_File other;
  snprintf(name, sizeof name, "%s/%s", prefix, rank == ranks - 1 ? "not there" : "faults");
  if (common_class(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &other)) != MPI_ERR_NOT_SAME) fail("open", 0);
  snprintf(name, sizeof name, "%s/none", prefix);
  if (common_class(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &other)) != MPI_ERR_NO_SUCH_FILE) fail("open", 1);
}

int main(int argc, char **argv) {
  int level = MPI_THREAD_SINGLE;
  nonblocking = argc > 3 && strcmp(argv[argc - 1], "nonblocking") == 0;
  MPI_Init_thread(&argc, &argv, nonblocking ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 3 || (nonblocking && level < MPI_THREAD_MULTIPLE)) fail("arguments", argc);
  if (nonblocking) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* MPI_Wait calls that one */
  char name[512];
  snprintf(name, sizeof name, "%s/faults", argv[1]);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "cb_nodes", "3");
  MPI_Info_set(info, "romio_cb_write", "enable");
  MPI_Info_set(info, "striping_unit", "4096");
  if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file)) fail("open", 0);
  set_view();
  const char *what = argv[2];
  if (strcmp(what, "killed") == 0) {
    for (int round = 0; round < ROUNDS; ++round) {
      if (round == 3 && rank == 1) raise(SIGKILL);
      write_round(round % 16);
    }
  } else if (strcmp(what, "server") == 0) {
    until_success();
  } else if (strcmp(what, "leases") == 0 && argc > 3) {
    until_stopped(argv[3]);
  } else if (strcmp(what, "full") == 0) {
    until_full();
  } else if (strcmp(what, "usable") == 0) {
    usable();
  } else {
    missing(argv[1]);
  }
  MPI_File_close(&file); /* may report a lost write */
  MPI_Finalize();
  return 0;
}
