// SPDX-License-Identifier: Apache-2.0
// Random datatypes in memory and as views, against a model of each byte.
//   types PREFIX FIRST_SEED SEEDS
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20, MOST_BYTES = 1 << 16, CHILDREN = 3 };

static int rank, ranks;
static unsigned long long state;

static int below(int n) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (int)((state >> 33) % (unsigned)n);
}

static void fail(const char *what, unsigned long long seed) {
  fprintf(stderr, "rank %d, seed %llu: %s\n", rank, seed, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* A type, and where each byte of its stream lies, built by the standard's definitions. Displacements ascend, no byte
 * comes twice; copies lie `extent` apart, which is set by hand: MPI libraries pad structs differently. */
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

static void make(struct made *out, int depth) {
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
  make(child, depth - 1);
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
        add(out, child, lengths[i], places[i]);
        end = places[i] + lengths[i] * extent;
      }
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

static void one(const char *name, unsigned long long seed) {
  static struct made in_memory, in_file;
  static unsigned char memory[MOST], expected[MOST], file_bytes[MOST];
  state = seed * 2862933555777941757ULL + 3037000493ULL;
  make(&in_memory, 1 + below(3));
  make(&in_file, 1 + below(3));
  const int memory_size = in_memory.size, file_size = in_file.size, extent = in_file.extent, memory_extent = in_memory.extent;
  const int *const memory_places = in_memory.places, *const file_places = in_file.places;
  if (memory_size == 0 || file_size == 0 || memory_size > MOST_BYTES || file_size > MOST_BYTES) return;
  MPI_Datatype memory_type = in_memory.type, tile;
  MPI_Type_commit(&memory_type);
  MPI_Type_create_resized(in_file.type, 0, (MPI_Aint)extent * ranks, &tile);
  MPI_Type_commit(&tile);
  const int count = 1 + below(3);
  const long long bytes = (long long)count * memory_size;
  if ((bytes / file_size + 2) * extent * ranks > MOST / 2 || count * memory_extent > MOST / 4) return;
  for (int i = 0; i < MOST / 2; ++i) memory[i] = (unsigned char)(i * 7 + rank * 31 + seed);

  MPI_File file;
  MPI_Info info;
  MPI_Info_create(&info);
  const char *how = below(2) ? "enable" : "disable";
  MPI_Info_set(info, "romio_cb_write", how);
  MPI_Info_set(info, "romio_cb_read", how);
  MPI_Info_set(info, "cb_nodes", "2");
  MPI_Info_set(info, "cb_buffer_size", "4096");
  if (MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file)) fail("open", seed);
  /* Tiles of the ranks by turns; each rank's bytes lie in its own. */
  const long long begin = 5 + (long long)rank * extent;
  if (MPI_File_set_view(file, begin, MPI_BYTE, tile, "native", info)) fail("set_view", seed);
  const int skip = below(file_size);
  MPI_Status status;
  if (MPI_File_write_at_all(file, skip, memory, count, memory_type, &status)) fail("write", seed);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);

  /* What the file must have in this rank's tiles. */
  memset(expected, 0, sizeof expected);
  long long end = 0;
  for (long long i = 0; i < bytes; ++i) {
    const long long at = (skip + i) / file_size * extent * ranks + file_places[(skip + i) % file_size];
    expected[at] = memory[i / memory_size * memory_extent + memory_places[i % memory_size]];
    if (at + 1 > end) end = at + 1;
  }
  MPI_File seen;
  if (MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &seen)) fail("open to look", seed);
  if (MPI_File_read_at(seen, begin, file_bytes, (int)end, MPI_BYTE, &status)) fail("read to look", seed);
  for (long long i = 0; i < end; ++i) {
    if (i / extent % ranks == 0 && file_bytes[i] != expected[i]) fail("the file has other bytes", seed);
  }
  MPI_File_close(&seen);

  static unsigned char back[MOST];
  memset(back, 0, sizeof back);
  if (MPI_File_read_at_all(file, skip, back, count, memory_type, &status)) fail("read", seed);
  for (long long i = 0; i < bytes; ++i) {
    const long long at = i / memory_size * memory_extent + memory_places[i % memory_size];
    if (back[at] != memory[at]) fail("other bytes came back", seed);
    back[at] = 0;
  }
  for (int i = 0; i < MOST; ++i) {
    if (back[i] != 0) fail("a byte beside the type was written", seed);
  }
  MPI_Type_free(&tile);
  MPI_Info_free(&info);
  MPI_File_close(&file);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 4) fail("arguments", 0);
  char name[512];
  snprintf(name, sizeof name, "%s/types", argv[1]);
  const unsigned long long first = strtoull(argv[2], NULL, 10), seeds = strtoull(argv[3], NULL, 10);
  for (unsigned long long seed = first; seed < first + seeds; ++seed) one(name, seed);
  MPI_Finalize();
  return 0;
}
