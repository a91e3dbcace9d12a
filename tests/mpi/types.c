// SPDX-License-Identifier: Apache-2.0
// Random datatypes in memory and as views, through every kind of access, against a model of each byte.
//   types PREFIX FIRST_SEED SEEDS [verbose|multiple]      multiple: with MPI_THREAD_MULTIPLE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20, MOST_BYTES = 1 << 16, CHILDREN = 3 };

static int rank, ranks, verbose;
static unsigned long long state;

static int below(int n) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (int)((state >> 33) % (unsigned)n);
}

static void fail(const char *what, unsigned long long seed) {
  fprintf(stderr, "rank %d, seed %llu: %s\n", rank, seed, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A type, and where each byte of its stream lies, built by the standard's definitions. Displacements ascend, except in
 * some types of memory, and no byte comes twice; copies lie `extent` apart, which is set by hand: MPI libraries pad
 * structs differently. */
struct made {
  MPI_Datatype type;
  int size; /* MOST_BYTES + 1: too large for this test */
  int extent;
  int places[MOST_BYTES];
};

static void add(struct made *out, const struct made *child, int count, long long at) {
  for (int c = 0; c < count; ++c) {
    for (int i = 0; i < child->size; ++i) {
      if (child->size > MOST_BYTES || out->size >= MOST_BYTES || at > MOST / 8) {
        out->size = MOST_BYTES + 1;
        return;
      }
      out->places[out->size++] = (int)at + c * child->extent + child->places[i];
    }
  }
}

static void make(struct made *out, int depth, int may_go_back) {
  out->size = 0;
  if (depth == 0) {
    static const int sizes[] = {1, 2, 4, 8};
    const MPI_Datatype basic[] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE};
    const int which = below(4);
    out->type = basic[which];
    out->extent = sizes[which];
    for (int i = 0; i < sizes[which]; ++i) out->places[out->size++] = i;
    return;
  }
  struct made *child = malloc(sizeof *child);
  make(child, depth - 1, may_go_back);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  const int n = 1 + below(CHILDREN), length = 1 + below(3), extent = child->extent;
  long long end = 0;
  switch (below(7)) {
    case 0:
      MPI_Type_contiguous(n, child->type, &type);
      add(out, child, n, 0);
      end = n * extent;
      break;
    case 1: {
      const int stride = length * extent + below(20);
      MPI_Type_create_hvector(n, length, stride, child->type, &type);
      for (int i = 0; i < n; ++i) add(out, child, length, (long long)i * stride);
      end = n * stride;
      break;
    }
    case 2: {
      const int stride = length + below(4);
      MPI_Type_vector(n, length, stride, child->type, &type);
      for (int i = 0; i < n; ++i) add(out, child, length, (long long)i * stride * extent);
      end = (long long)n * stride * extent;
      break;
    }
    case 3: {
      int lengths[CHILDREN];
      MPI_Aint places[CHILDREN];
      for (int i = 0; i < n; ++i) {
        lengths[i] = 1 + below(3);
        places[i] = end + below(9);
        end = places[i] + lengths[i] * extent;
      }
      if (may_go_back && n > 1 && below(2)) {
        const int length_0 = lengths[0];
        const MPI_Aint place_0 = places[0];
        lengths[0] = lengths[n - 1], places[0] = places[n - 1];
        lengths[n - 1] = length_0, places[n - 1] = place_0;
      }
      for (int i = 0; i < n; ++i) add(out, child, lengths[i], places[i]);
      MPI_Type_create_hindexed(n, lengths, places, child->type, &type);
      break;
    }
    case 4: {
      int lengths[2] = {1, length};
      MPI_Datatype types[2] = {child->type, MPI_SHORT};
      MPI_Aint places[2] = {0, extent + below(9)};
      static const struct made two = {.size = 2, .extent = 2, .places = {0, 1}};
      MPI_Type_create_struct(2, lengths, places, types, &type);
      add(out, child, 1, 0);
      add(out, &two, length, places[1]);
      end = places[1] + 2 * length;
      break;
    }
    case 5: {
      int sizes[2], starts[2], parts[2];
      for (int i = 0; i < 2; ++i) {
        sizes[i] = 1 + below(5);
        starts[i] = below(sizes[i]);
        parts[i] = 1 + below(sizes[i] - starts[i]);
      }
      const int in_c = below(2), slow = in_c ? 0 : 1, fast = 1 - slow;
      MPI_Type_create_subarray(2, sizes, parts, starts, in_c ? MPI_ORDER_C : MPI_ORDER_FORTRAN, child->type, &type);
      for (int i = 0; i < parts[slow]; ++i) add(out, child, parts[fast], (long long)((starts[slow] + i) * sizes[fast] + starts[fast]) * extent);
      end = (long long)sizes[0] * sizes[1] * extent;
      break;
    }
    default: {
      int sizes[2] = {2 + below(5), 1 + below(5)}, grid[2] = {2, 1}, whole[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
      const int cyclic = below(2), place = below(2), block = (sizes[0] + 1) / 2;
      int deals[2] = {cyclic ? MPI_DISTRIBUTE_CYCLIC : MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE};
      MPI_Type_create_darray(2, place, 2, sizes, deals, whole, grid, MPI_ORDER_C, child->type, &type);
      for (int i = 0; i < sizes[0]; ++i) {
        if ((cyclic ? i % 2 : i / block) == place) add(out, child, sizes[1], (long long)i * sizes[1] * extent);
      }
      end = (long long)sizes[0] * sizes[1] * extent;
    }
  }
  out->extent = (int)end + below(12);
  MPI_Type_create_resized(type, 0, out->extent, &out->type);
  MPI_Type_free(&type);
  free(child);
}

/* The way of one access. */
enum how {
  AT, AT_ALL, INDIVIDUAL, ALL, SHARED, ORDERED, I_AT, I_AT_ALL, I_INDIVIDUAL, I_ALL, I_SHARED, SPLIT_AT, SPLIT, SPLIT_ORDERED, ATOMIC, HOWS
};
static const char *const names[HOWS] = {"at", "at_all", "individual", "all", "shared", "ordered", "i_at", "i_at_all", "i_individual", "i_all", "i_shared",
                                        "split_at", "split", "split_ordered", "atomic"};
static int is_shared(enum how how) { return how == SHARED || how == ORDERED || how == I_SHARED || how == SPLIT_ORDERED; }

/* The ranks take turns, so the shared pointer moves in their order. */
static int in_turn(MPI_File file, int write, enum how how, void *memory, int count, MPI_Datatype type, MPI_Status *status) {
  int failed = 0;
  for (int turn = 0; turn < ranks; ++turn) {
    if (turn == rank && how == SHARED)
      failed = write ? MPI_File_write_shared(file, memory, count, type, status) : MPI_File_read_shared(file, memory, count, type, status);
    if (turn == rank && how == I_SHARED) {
      MPI_Request request;
      failed = write ? MPI_File_iwrite_shared(file, memory, count, type, &request) : MPI_File_iread_shared(file, memory, count, type, &request);
      failed = failed || MPI_Wait(&request, status);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return failed;
}

/* From byte `skip` of the view on; what goes by the shared pointer begins there with rank 0. */
static int move(MPI_File file, int write, enum how how, int skip, void *memory, int count, MPI_Datatype type, MPI_Status *status) {
  MPI_Request request = MPI_REQUEST_NULL;
  int failed = is_shared(how) ? MPI_File_seek_shared(file, skip, MPI_SEEK_SET) : MPI_File_seek(file, skip, MPI_SEEK_SET);
  if (failed) return failed;
  switch (how) {
    case SHARED:
    case I_SHARED: return in_turn(file, write, how, memory, count, type, status);
    case ATOMIC:
      if (MPI_File_set_atomicity(file, 1)) return 1;
      failed = write ? MPI_File_write_at(file, skip, memory, count, type, status) : MPI_File_read_at(file, skip, memory, count, type, status);
      return failed || MPI_File_set_atomicity(file, 0);
    case AT: return write ? MPI_File_write_at(file, skip, memory, count, type, status) : MPI_File_read_at(file, skip, memory, count, type, status);
    case AT_ALL: return write ? MPI_File_write_at_all(file, skip, memory, count, type, status) : MPI_File_read_at_all(file, skip, memory, count, type, status);
    case INDIVIDUAL: return write ? MPI_File_write(file, memory, count, type, status) : MPI_File_read(file, memory, count, type, status);
    case ALL: return write ? MPI_File_write_all(file, memory, count, type, status) : MPI_File_read_all(file, memory, count, type, status);
    case ORDERED: return write ? MPI_File_write_ordered(file, memory, count, type, status) : MPI_File_read_ordered(file, memory, count, type, status);
    case SPLIT_AT:
      failed = write ? MPI_File_write_at_all_begin(file, skip, memory, count, type) : MPI_File_read_at_all_begin(file, skip, memory, count, type);
      return failed || (write ? MPI_File_write_at_all_end(file, memory, status) : MPI_File_read_at_all_end(file, memory, status));
    case SPLIT:
      failed = write ? MPI_File_write_all_begin(file, memory, count, type) : MPI_File_read_all_begin(file, memory, count, type);
      return failed || (write ? MPI_File_write_all_end(file, memory, status) : MPI_File_read_all_end(file, memory, status));
    case SPLIT_ORDERED:
      failed = write ? MPI_File_write_ordered_begin(file, memory, count, type) : MPI_File_read_ordered_begin(file, memory, count, type);
      return failed || (write ? MPI_File_write_ordered_end(file, memory, status) : MPI_File_read_ordered_end(file, memory, status));
    case I_AT: failed = write ? MPI_File_iwrite_at(file, skip, memory, count, type, &request) : MPI_File_iread_at(file, skip, memory, count, type, &request); break;
    case I_AT_ALL:
      failed = write ? MPI_File_iwrite_at_all(file, skip, memory, count, type, &request) : MPI_File_iread_at_all(file, skip, memory, count, type, &request);
      break;
    case I_INDIVIDUAL: failed = write ? MPI_File_iwrite(file, memory, count, type, &request) : MPI_File_iread(file, memory, count, type, &request); break;
    default: failed = write ? MPI_File_iwrite_all(file, memory, count, type, &request) : MPI_File_iread_all(file, memory, count, type, &request);
  }
  return failed || MPI_Wait(&request, status);
}

struct run {
  unsigned long long seed;
  enum how how; /* what is not shared is in tiles of the ranks by turns; what is shared, one rank after the other */
  int skip, count;
  const struct made *memory, *file;
};

static long long bytes_of(const struct run *run) { return (long long)run->count * run->memory->size; }
static long long place_in_memory(const struct run *run, long long i) {
  return i / run->memory->size * run->memory->extent + run->memory->places[i % run->memory->size];
}
/* Returns the file offset of byte i of a rank's access. */
static long long place_in_file(const struct run *run, int whose, long long i) {
  const long long at = run->skip + i + (is_shared(run->how) ? whose * bytes_of(run) : 0);
  const long long tile = at / run->file->size * (is_shared(run->how) ? 1 : ranks) + (is_shared(run->how) ? 0 : whose);
  return 5 + tile * run->file->extent + run->file->places[at % run->file->size];
}
static unsigned char value(const struct run *run, int whose, long long place) { return (unsigned char)(place * 7 + whose * 31 + (long long)run->seed) | 1; }

/* All of the file, seen without a view: the ranks' bytes, and nothing between them. */
static void look(const char *name, const struct run *run) {
  static unsigned char expected[MOST], file_bytes[MOST];
  memset(expected, 0, sizeof expected);
  long long end = 0;
  for (int whose = 0; whose < ranks; ++whose) {
    for (long long i = 0; i < bytes_of(run); ++i) {
      const long long at = place_in_file(run, whose, i);
      expected[at] = value(run, whose, place_in_memory(run, i));
      if (at + 1 > end) end = at + 1;
    }
  }
  MPI_File seen;
  MPI_Status status;
  int count = 0;
  if (MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &seen)) fail("open to look", run->seed);
  if (MPI_File_read_at(seen, 0, file_bytes, MOST, MPI_BYTE, &status)) fail("read to look", run->seed);
  MPI_Get_count(&status, MPI_BYTE, &count);
  if (count != end) fail("the file has another size", run->seed);
  if (memcmp(file_bytes, expected, (size_t)end) != 0) fail("the file has other bytes", run->seed);
  MPI_File_close(&seen);
}

/* Writes by run->how and reads by `back`. */
static void write_and_read(const char *name, MPI_File file, const struct run *run, enum how back_how, MPI_Datatype type) {
  static unsigned char memory[MOST], back[MOST];
  MPI_Status status;
  int count = 0;
  for (int i = 0; i < MOST / 2; ++i) memory[i] = value(run, rank, i);
  if (move(file, 1, run->how, run->skip, memory, run->count, type, &status)) fail("write", run->seed);
  MPI_Get_count(&status, MPI_BYTE, &count);
  if (count != bytes_of(run)) fail("the status of the write", run->seed);
  MPI_Barrier(MPI_COMM_WORLD);
  look(name, run);
  memset(back, 0, sizeof back);
  if (move(file, 0, back_how, run->skip, back, run->count, type, &status)) fail("read", run->seed);
  MPI_Get_count(&status, MPI_BYTE, &count);
  if (count != bytes_of(run)) fail("the status of the read", run->seed);
  for (long long i = 0; i < bytes_of(run); ++i) {
    const long long at = place_in_memory(run, i);
    if (back[at] != memory[at]) fail("other bytes came back", run->seed);
    back[at] = 0;
  }
  for (int i = 0; i < MOST; ++i) {
    if (back[i] != 0) fail("a byte beside the type was written", run->seed);
  }
}

static void one(const char *name, unsigned long long seed) {
  static struct made in_memory, in_file;
  state = seed * 2862933555777941757ULL + 3037000493ULL;
  make(&in_memory, 1 + below(3), 1);
  make(&in_file, 1 + below(3), 0);
  struct run run = {.seed = seed, .memory = &in_memory, .file = &in_file};
  run.how = (enum how)(seed % HOWS);
  enum how back = (enum how)below(HOWS);
  while (is_shared(back) != is_shared(run.how)) back = (enum how)below(HOWS);
  if (in_memory.size == 0 || in_file.size == 0 || in_memory.size > MOST_BYTES || in_file.size > MOST_BYTES) return;
  MPI_Datatype memory_type = in_memory.type, tile;
  MPI_Type_commit(&memory_type);
  MPI_Type_create_resized(in_file.type, 0, (MPI_Aint)in_file.extent * (is_shared(run.how) ? 1 : ranks), &tile);
  MPI_Type_commit(&tile);
  run.count = 1 + below(3);
  run.skip = below(in_file.size);
  if ((bytes_of(&run) / in_file.size + 2) * in_file.extent * ranks > MOST / 2 || run.count * in_memory.extent > MOST / 4) return;

  MPI_File file;
  MPI_Info info;
  MPI_Info_create(&info);
  const char *phases = below(2) ? "enable" : "disable";
  MPI_Info_set(info, "romio_cb_write", phases);
  MPI_Info_set(info, "romio_cb_read", phases);
  MPI_Info_set(info, "cb_nodes", "2");
  MPI_Info_set(info, "cb_buffer_size", "4096");
  if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file)) fail("open", seed);
  if (MPI_File_set_view(file, 5 + (is_shared(run.how) ? 0 : (MPI_Offset)rank * in_file.extent), MPI_BYTE, tile, "native", info)) fail("set_view", seed);
  if (verbose && rank == 0) printf("seed %llu: %s, %s, %lld bytes\n", seed, names[run.how], names[back], bytes_of(&run));
  write_and_read(name, file, &run, back, memory_type);
  MPI_Type_free(&tile);
  MPI_Type_free(&memory_type);
  MPI_Info_free(&info);
  MPI_File_close(&file);
}

int main(int argc, char **argv) {
  int level = MPI_THREAD_SINGLE;
  const int wanted = argc > 4 && strcmp(argv[4], "multiple") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, wanted, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 4 || level < wanted) fail("arguments", 0);
  verbose = argc > 4 && wanted == MPI_THREAD_SINGLE;
  char name[512];
  snprintf(name, sizeof name, "%s/types", argv[1]);
  const unsigned long long first = strtoull(argv[2], NULL, 10), seeds = strtoull(argv[3], NULL, 10);
  for (unsigned long long seed = first; seed < first + seeds; ++seed) one(name, seed);
  MPI_Finalize();
  return 0;
}
