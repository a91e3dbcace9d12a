// SPDX-License-Identifier: Apache-2.0
// Random datatypes in memory and as views, against MPI's own packing and a byte-wise model of the file.
//   types PREFIX FIRST_SEED SEEDS
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20, CHILDREN = 3 };

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

/* Without a byte named twice, displacements ascending: what a file takes. */
static MPI_Datatype make(int depth) {
  if (depth == 0) {
    switch (below(4)) {
      case 0: return MPI_CHAR;
      case 1: return MPI_SHORT;
      case 2: return MPI_INT;
      default: return MPI_DOUBLE;
    }
  }
  MPI_Datatype child = make(depth - 1), type;
  MPI_Aint lb, extent, true_lb, true_extent;
  MPI_Type_get_extent(child, &lb, &extent);
  MPI_Type_get_true_extent(child, &true_lb, &true_extent);
  if (extent < true_lb + true_extent) extent = true_lb + true_extent;
  int n = 1 + below(CHILDREN);
  switch (below(8)) {
    case 0: MPI_Type_contiguous(n, child, &type); break;
    case 1: {
      int length = 1 + below(3);
      MPI_Type_create_hvector(n, length, length * extent + below(20), child, &type);
      break;
    }
    case 2: {
      int length = 1 + below(3);
      MPI_Type_vector(n, length, length + below(4), child, &type);
      break;
    }
    case 3: {
      int lengths[CHILDREN];
      MPI_Aint places[CHILDREN], at = 0;
      for (int i = 0; i < n; ++i) {
        lengths[i] = 1 + below(3);
        places[i] = at + below(9);
        at = places[i] + lengths[i] * extent;
      }
      MPI_Type_create_hindexed(n, lengths, places, child, &type);
      break;
    }
    case 4: {
      int lengths[2] = {1, 1 + below(3)};
      MPI_Datatype types[2] = {child, MPI_SHORT};
      MPI_Aint places[2] = {0, extent + below(9)};
      MPI_Type_create_struct(2, lengths, places, types, &type);
      break;
    }
    case 5: {
      int sizes[2] = {1 + below(5), 1 + below(5)}, starts[2], parts[2];
      for (int i = 0; i < 2; ++i) {
        starts[i] = below(sizes[i]);
        parts[i] = 1 + below(sizes[i] - starts[i]);
      }
      MPI_Type_create_subarray(2, sizes, parts, starts, below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, child, &type);
      break;
    }
    case 6: {
      int sizes[2] = {2 + below(5), 2 + below(5)}, grid[2] = {2, 1};
      int deals[2] = {below(2) ? MPI_DISTRIBUTE_BLOCK : MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
      int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
      MPI_Type_create_darray(2, below(2), 2, sizes, deals, arguments, grid, below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, child, &type);
      break;
    }
    default: MPI_Type_create_resized(child, 0, extent + below(12), &type); break;
  }
  return type;
}

/* Where each byte of the type's stream lies: MPI packs a buffer whose bytes say their places. */
static int places_of(MPI_Datatype type, int *places) {
  int size = 0, packed = 0;
  MPI_Aint lb, extent;
  MPI_Type_size(type, &size);
  MPI_Type_get_true_extent(type, &lb, &extent);
  long long span = lb + extent;
  if (size <= 0 || span > MOST / 4) return 0;
  unsigned char *bytes = malloc(span), *out = malloc(size);
  memset(places, 0, size * sizeof *places);
  for (int shift = 0; shift < 24; shift += 8) {
    for (long long i = 0; i < span; ++i) bytes[i] = (unsigned char)(i >> shift);
    packed = 0;
    MPI_Pack(bytes, 1, type, out, size, &packed, MPI_COMM_SELF);
    for (int i = 0; i < size; ++i) places[i] |= out[i] << shift;
  }
  free(bytes);
  free(out);
  return size;
}

static void one(const char *name, unsigned long long seed) {
  static int memory_places[MOST], file_places[MOST];
  static unsigned char memory[MOST], expected[MOST], file_bytes[MOST];
  state = seed * 2862933555777941757ULL + 3037000493ULL;
  MPI_Datatype memory_type = make(1 + below(3)), file_type = make(1 + below(3)), tile;
  MPI_Type_commit(&memory_type);
  MPI_Type_commit(&file_type);
  const int memory_size = places_of(memory_type, memory_places), file_size = places_of(file_type, file_places);
  if (memory_size == 0 || file_size == 0) return;
  MPI_Aint lb, extent, memory_extent;
  MPI_Type_get_true_extent(file_type, &lb, &extent);
  extent += lb + below(10);
  MPI_Type_create_resized(file_type, 0, extent * ranks, &tile);
  MPI_Type_commit(&tile);
  MPI_Type_get_extent(memory_type, &lb, &memory_extent);
  const int count = 1 + below(3);
  const long long bytes = (long long)count * memory_size;
  if (bytes / file_size * extent * ranks + extent * ranks > MOST / 2 || count * memory_extent > MOST / 4) return;
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
