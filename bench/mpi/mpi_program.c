/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_program FILE PATTERN WAYS PIECE BYTES RUNS: the ranks write and then read one file, RUNS times in each way by turns.
 * Prints "BYTES WRITE READ WRITE READ ..." for each run: of all ranks together, and the seconds of the slowest one in each way.
 *   PATTERN   contiguous: one part of BYTES a rank. pieces: pieces of PIECE bytes, dealt out to the ranks in turn, BYTES a
 *             rank. btio: BYTES is the side of the cube of cells of 40 bytes; the number of ranks is a square.
 *   WAYS      with commas between them. independent: a call of each rank. enable, disable, automatic: a collective call with that
 *             value of romio_cb_write and _read. contiguous: independent calls that move as many bytes in one part.
 *             native: calls of spate.h that do the same, strided or with a list; FILE is a spate: name. agreed: the same between an
 *             MPI_Allgather and an MPI_Allreduce, as a collective call needs them to choose its way and to tell every rank of errors. */
#include <fcntl.h>
#include <mpi.h>
#include <spate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WAYS = 8, CELL = 40 };

struct way {
  const char *name;
  MPI_File file; /* but native */
};

static int rank, ranks;
static long bytes, before; /* of this rank; of those before it */
static char *memory;
static const char *pattern;
static int piece;
static spate_fs *fs;
static spate_file *native_file;
static struct spate_range *rows; /* btio: this rank's, ascending */
static size_t row_count;
static long *gathered;

static void stop(const char *what, const char *why) {
  fprintf(stderr, "mpi_program: rank %d: %s: %s\n", rank, what, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void must(int code, const char *what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  stop(what, text);
}

static int is(const char *text, const char *word) { return strcmp(text, word) == 0; }

static void add_rows(int side, const int *part, const int *start) {
  rows = realloc(rows, (row_count + (size_t)part[0] * (size_t)part[1]) * sizeof *rows);
  for (int z = start[0]; z < start[0] + part[0]; ++z)
    for (int y = start[1]; y < start[1] + part[1]; ++y)
      rows[row_count++] = (struct spate_range){(((uint64_t)z * side + y) * side + start[2]) * CELL, (uint64_t)part[2] * CELL};
}

/* BT's diagonal multi-partition: in each of q slabs the rank has one block, moved on by one in the next slab. */
static MPI_Datatype btio_type(int side) {
  int q = 1;
  while ((q + 1) * (q + 1) <= ranks) ++q;
  const int i = rank % q, j = rank / q;
  MPI_Datatype cell, type;
  MPI_Type_contiguous(5, MPI_DOUBLE, &cell);
  MPI_Datatype *blocks = malloc((size_t)q * sizeof *blocks);
  int *ones = malloc((size_t)q * sizeof *ones);
  MPI_Aint *zeros = calloc((size_t)q, sizeof *zeros);
  bytes = 0;
  for (int c = 0; c < q; ++c) {
    const int at[3] = {c, (j + c) % q, (i + c) % q};
    int whole[3], part[3], start[3];
    for (int d = 0; d < 3; ++d) {
      whole[d] = side;
      start[d] = at[d] * side / q;
      part[d] = (at[d] + 1) * side / q - start[d];
    }
    MPI_Type_create_subarray(3, whole, part, start, MPI_ORDER_C, cell, &blocks[c]);
    ones[c] = 1;
    bytes += (long)part[0] * part[1] * part[2] * CELL;
    add_rows(side, part, start);
  }
  MPI_Type_create_struct(q, ones, zeros, blocks, &type);
  for (int c = 0; c < q; ++c) MPI_Type_free(&blocks[c]);
  MPI_Type_free(&cell);
  free(blocks);
  free(ones);
  free(zeros);
  return type;
}

static MPI_Datatype pieces_type(void) {
  MPI_Datatype one, type;
  MPI_Type_contiguous(piece, MPI_BYTE, &one);
  MPI_Type_create_resized(one, 0, (MPI_Aint)piece * ranks, &type);
  MPI_Type_free(&one);
  return type;
}

static int is_native(const struct way *way) { return is(way->name, "native") || is(way->name, "agreed"); }

static void open_way(struct way *way, const char *path, MPI_Datatype type) {
  if (is_native(way)) {
    if (native_file == NULL && (spate_connect(&fs, NULL, NULL) != 0 || spate_open(fs, path + strlen("spate:"), O_RDWR, 0, &native_file) != 0))
      stop("native open", spate_last_error());
    return;
  }
  const int plain = is(pattern, "contiguous") || is(way->name, "contiguous");
  MPI_Info info;
  MPI_Info_create(&info);
  if (!is(way->name, "independent") && !is(way->name, "contiguous")) {
    MPI_Info_set(info, "romio_cb_write", way->name);
    MPI_Info_set(info, "romio_cb_read", way->name);
  }
  must(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &way->file), "open");
  const MPI_Offset begin = plain ? before : is(pattern, "pieces") ? (MPI_Offset)rank * piece : 0;
  must(MPI_File_set_view(way->file, begin, MPI_BYTE, plain ? MPI_BYTE : type, "native", info), "set_view");
  MPI_Info_free(&info);
}

static long native_move(int write) {
  const struct iovec all = {memory, (size_t)bytes};
  if (is(pattern, "contiguous"))
    return write ? spate_pwrite(native_file, memory, (size_t)bytes, (uint64_t)before) : spate_pread(native_file, memory, (size_t)bytes, (uint64_t)before);
  if (is(pattern, "btio")) return write ? spate_write_list(native_file, rows, row_count, &all, 1) : spate_read_list(native_file, rows, row_count, &all, 1);
  const struct spate_strided mine = {(uint64_t)rank * piece, (uint64_t)piece, 1, {{(uint64_t)(bytes / piece), (uint64_t)piece * ranks}}};
  return write ? spate_write_strided(native_file, &mine, &all, 1) : spate_read_strided(native_file, &mine, &all, 1);
}

/* The seconds of this rank. */
static double move(const struct way *way, int write) {
  const int alone = is(way->name, "independent") || is(way->name, "contiguous");
  int code = MPI_SUCCESS;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  if (is_native(way)) {
    const int agreed = is(way->name, "agreed");
    long mine[5] = {bytes}, most = 0;
    if (agreed) MPI_Allgather(mine, 5, MPI_LONG, gathered, 5, MPI_LONG, MPI_COMM_WORLD);
    if (native_move(write) != bytes) stop("native call", spate_last_error());
    if (agreed) MPI_Allreduce(mine, &most, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
  } else if (alone) {
    code = write ? MPI_File_write_at(way->file, 0, memory, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                 : MPI_File_read_at(way->file, 0, memory, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE);
  } else {
    code = write ? MPI_File_write_at_all(way->file, 0, memory, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                 : MPI_File_read_at_all(way->file, 0, memory, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE);
  }
  const double took = MPI_Wtime() - begin;
  must(code, write ? "write" : "read");
  return took;
}

static void run_once(const struct way *way, int run, double seconds[2]) {
  const char mark = (char)('a' + (rank + run) % 26);
  for (int read = 0; read < 2; ++read) {
    memset(memory, read ? 0 : mark, (size_t)bytes);
    const double took = move(way, !read);
    MPI_Allreduce(&took, &seconds[read], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  for (long i = 0; i < bytes; ++i)
    if (memory[i] != mark) stop(way->name, "it read a wrong byte");
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 7) stop("usage", "mpi_program FILE PATTERN WAYS PIECE BYTES RUNS");
  pattern = argv[2];
  piece = atoi(argv[4]);
  bytes = atol(argv[5]);
  const int runs = atoi(argv[6]);
  MPI_Datatype type = is(pattern, "btio") ? btio_type((int)bytes) : is(pattern, "pieces") ? pieces_type() : MPI_BYTE;
  if (type != MPI_BYTE) MPI_Type_commit(&type);
  MPI_Exscan(&bytes, &before, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  memory = malloc((size_t)bytes);
  gathered = malloc((size_t)ranks * 5 * sizeof *gathered);
  MPI_File made; /* so that it is there for native calls */
  must(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &made), "open");
  struct way ways[MOST_WAYS];
  int count = 0;
  for (char *name = strtok(argv[3], ","); name != NULL && count < MOST_WAYS; name = strtok(NULL, ",")) {
    ways[count].name = name;
    open_way(&ways[count++], argv[1], type);
  }
  long all = 0;
  MPI_Allreduce(&bytes, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  for (int run = 0; run < runs; ++run) {
    double seconds[MOST_WAYS][2];
    for (int n = 0; n < count; ++n) run_once(&ways[(n + run) % count], run, seconds[(n + run) % count]);
    if (rank == 0) printf("%ld", all);
    for (int n = 0; n < count && rank == 0; ++n) printf(" %.9f %.9f", seconds[n][0], seconds[n][1]);
    if (rank == 0) puts("");
  }
  for (int n = 0; n < count; ++n)
    if (!is_native(&ways[n])) must(MPI_File_close(&ways[n].file), "close");
  must(MPI_File_close(&made), "close");
  if (native_file != NULL) {
    spate_close(native_file);
    spate_disconnect(fs);
  }
  if (type != MPI_BYTE) MPI_Type_free(&type);
  free(gathered);
  free(rows);
  free(memory);
  MPI_Finalize();
  return 0;
}
