// SPDX-License-Identifier: Apache-2.0
// Arguments that are wrong or differ between ranks, views that overlap themselves, and accesses of nothing: every rank gets the same
// error class or the right bytes, none waits for another, and the file can be used afterwards.
//   arguments PREFIX
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static MPI_File file;

static const char *path(const char *name) {
  static char text[512];
  snprintf(text, sizeof text, "%s/%s", prefix, name);
  return text;
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

/* The other ranks' bytes are unchanged, and all ranks can go on together. */
static void usable(void) {
  int out = rank + 100, in = -1;
  OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  OK(MPI_File_write_at_all(file, rank, &out, 1, MPI_INT, MPI_STATUS_IGNORE));
  OK(MPI_File_sync(file));
  OK(MPI_File_read_at_all(file, (rank + 1) % ranks, &in, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK(in == (rank + 1) % ranks + 100);
}

static void unequal(void) {
  const int last = rank == ranks - 1;
  int x = 7;
  CHECK(class_of(MPI_File_set_view(file, 0, last ? MPI_INT : MPI_SHORT, last ? MPI_INT : MPI_SHORT, "native", MPI_INFO_NULL)) == MPI_ERR_NOT_SAME);
  CHECK(class_of(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, last ? "external32" : "native", MPI_INFO_NULL)) == MPI_ERR_NOT_SAME);
  CHECK(class_of(MPI_File_set_view(file, last ? -5 : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL)) == MPI_ERR_ARG);
  CHECK(class_of(MPI_File_set_view(file, 0, MPI_INT, last ? MPI_DATATYPE_NULL : MPI_INT, "native", MPI_INFO_NULL)) == MPI_ERR_TYPE);
  CHECK(class_of(MPI_File_set_view(file, 0, MPI_INT, last ? MPI_SHORT : MPI_INT, "native", MPI_INFO_NULL)) == MPI_ERR_ARG);
  usable();
  CHECK(class_of(MPI_File_set_size(file, last ? 100 : 99)) == MPI_ERR_NOT_SAME);
  CHECK(class_of(MPI_File_preallocate(file, last ? 100 : 99)) == MPI_ERR_NOT_SAME);
  CHECK(class_of(MPI_File_set_size(file, -1)) == MPI_ERR_ARG);
  CHECK(class_of(MPI_File_set_atomicity(file, last)) == MPI_ERR_NOT_SAME);
  CHECK(class_of(MPI_File_seek_shared(file, last, MPI_SEEK_SET)) == MPI_ERR_NOT_SAME);
  CHECK(class_of(MPI_File_seek_shared(file, 0, last ? MPI_SEEK_SET : MPI_SEEK_END)) == MPI_ERR_NOT_SAME);
  CHECK(class_of(MPI_File_seek_shared(file, -1, MPI_SEEK_SET)) == MPI_ERR_ARG);
  usable();
  CHECK(class_of(MPI_File_write_at_all(file, 0, &x, last ? -1 : 1, MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_COUNT);
  CHECK(class_of(MPI_File_write_at_all(file, 0, &x, 1, last ? MPI_DATATYPE_NULL : MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_TYPE);
  CHECK(class_of(MPI_File_read_all(file, &x, last ? 1 : 0, last ? MPI_SHORT : MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_IO);
  CHECK(class_of(MPI_File_write_ordered(file, &x, last ? -1 : 1, MPI_INT, MPI_STATUS_IGNORE)) == MPI_ERR_COUNT);
  /* A failed begin call needs no end call. */
  CHECK(class_of(MPI_File_write_at_all_begin(file, last ? -1 : 0, &x, 1, MPI_INT)) == MPI_ERR_ARG);
  OK(MPI_File_write_at_all_begin(file, rank, &x, 1, MPI_INT));
  CHECK(class_of(MPI_File_write_at_all_begin(file, rank, &x, 1, MPI_INT)) == MPI_ERR_OTHER);
  OK(MPI_File_write_at_all_end(file, &x, MPI_STATUS_IGNORE));
  CHECK(class_of(MPI_File_write_at_all_end(file, &x, MPI_STATUS_IGNORE)) == MPI_ERR_OTHER);
  usable();
  MPI_File other;
  const int amode = MPI_MODE_CREATE | (last ? MPI_MODE_WRONLY : MPI_MODE_RDWR);
  CHECK(class_of(MPI_File_open(MPI_COMM_WORLD, path("arguments"), amode, MPI_INFO_NULL, &other)) == MPI_ERR_NOT_SAME);
  CHECK(other == MPI_FILE_NULL);
}

static void refused_view(MPI_Datatype type) {
  OK(MPI_Type_commit(&type));
  /* The view of one rank is enough for the error. */
  CHECK(class_of(MPI_File_set_view(file, 0, MPI_BYTE, rank == ranks - 1 ? type : MPI_BYTE, "native", MPI_INFO_NULL)) == MPI_ERR_ARG);
  MPI_Type_free(&type);
  usable();
}

static void overlapping_views(void) {
  MPI_Datatype type, inner;
  OK(MPI_Type_create_hvector(3, 8, 4, MPI_BYTE, &type));
  refused_view(type);
  OK(MPI_Type_create_hvector(3, 2, 100, MPI_BYTE, &inner));
  OK(MPI_Type_create_hvector(3, 1, 50, inner, &type)); /* the inner ones lie between each other */
  MPI_Type_free(&inner);
  refused_view(type);
  const int lengths[2] = {4, 4};
  const int places[2] = {0, 2};
  OK(MPI_Type_indexed(2, lengths, places, MPI_BYTE, &type));
  refused_view(type);
  const int back[2] = {8, 0};
  OK(MPI_Type_indexed(2, lengths, back, MPI_BYTE, &type));
  refused_view(type);
  const int before[2] = {-8, 0};
  OK(MPI_Type_indexed(2, lengths, before, MPI_BYTE, &type));
  refused_view(type);
}

static void set_hints_view(MPI_Offset at, MPI_Datatype type, const char *buffer_size) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_write", "enable");
  MPI_Info_set(info, "romio_cb_read", "enable");
  MPI_Info_set(info, "cb_buffer_size", buffer_size);
  OK(MPI_File_set_view(file, at, MPI_BYTE, type, "native", info));
  MPI_Info_free(&info);
}

/* The pieces of a tile lie between those of the next ones; from the fifth tile on they overlap. */
static void interleaved_tiles(void) {
  enum { TILES = 4, BYTES = 8 * TILES - 4 };
  const MPI_Offset own = 4096 + 100 * rank;
  MPI_Datatype pair, tile;
  char out[5 * 8], in[BYTES], plain[28];
  for (int i = 0; i < 5 * 8; ++i) out[i] = (char)('A' + i);
  OK(MPI_Type_create_hvector(2, 4, 16, MPI_BYTE, &pair));
  OK(MPI_Type_create_resized(pair, 0, 4, &tile));
  OK(MPI_Type_commit(&tile));
  for (int way = 0; way < 3; ++way) { /* in two phases, alone, alone in atomic mode */
    OK(MPI_File_set_view(file, own, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    memset(plain, 0, sizeof plain);
    OK(MPI_File_write_at(file, 0, plain, sizeof plain, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    set_hints_view(own, tile, "4096");
    OK(MPI_File_set_atomicity(file, way == 2));
    OK(way == 0 ? MPI_File_write_at_all(file, 0, out, BYTES, MPI_BYTE, MPI_STATUS_IGNORE) : MPI_File_write_at(file, 0, out, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    memset(in, 0, sizeof in);
    OK(way == 0 ? MPI_File_read_at_all(file, 0, in, BYTES, MPI_BYTE, MPI_STATUS_IGNORE) : MPI_File_read_at(file, 0, in, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(memcmp(in, out, BYTES) == 0);
    CHECK(class_of(MPI_File_write_at_all(file, 0, out, rank == ranks - 1 ? 5 * 8 : BYTES, MPI_BYTE, MPI_STATUS_IGNORE)) == MPI_ERR_ARG);
    OK(MPI_File_set_atomicity(file, 0));
    OK(MPI_File_set_view(file, own, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at(file, 0, plain, sizeof plain, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < BYTES; ++i) CHECK(plain[i / 8 * 4 + (i % 8 < 4 ? i % 8 : 12 + i % 8)] == out[i]);
  }
  MPI_Type_free(&pair);
  MPI_Type_free(&tile);
  usable();
}

/* What the view shows is what MPI packs from memory with the same bytes. */
static void read_by_view(MPI_File reader, const char *bytes, MPI_Datatype type, int kind) {
  char in[64], expected[64];
  int size = 0, place = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  OK(MPI_Type_commit(&type));
  OK(MPI_File_set_view(reader, rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
  OK(MPI_Type_size(type, &size));
  CHECK(2 * size <= 64);
  OK(MPI_Pack(bytes + rank, 2, type, expected, 64, &place, MPI_COMM_SELF));
  memset(in, 0, sizeof in);
  if (kind == 0) OK(MPI_File_read_at_all(reader, 1, in, 2 * size - 1, MPI_BYTE, &status));
  if (kind == 1) OK(MPI_File_read_at(reader, 1, in, 2 * size - 1, MPI_BYTE, &status));
  if (kind == 2) {
    OK(MPI_File_iread_at_all(reader, 1, in, 2 * size - 1, MPI_BYTE, &request));
    OK(MPI_Wait(&request, &status));
  }
  CHECK(count_of(&status) == 2 * size - 1 && memcmp(in, expected + 1, 2 * size - 1) == 0);
  MPI_Type_free(&type);
}

/* Bytes that overlap or go back may be read, if nobody can write through the view. */
static void views_to_read(void) {
  enum { BYTES = 256 };
  char bytes[BYTES];
  const int four[3] = {4, 4, 4}, back[3] = {8, 0, 4};
  MPI_Datatype type, inner;
  MPI_File reader;
  MPI_Info info;
  MPI_Offset position = 0;
  for (int i = 0; i < BYTES; ++i) bytes[i] = (char)(i * 7);
  OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  OK(MPI_File_set_size(file, BYTES));
  if (rank == 0) OK(MPI_File_write_at(file, 0, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_read", "enable");
  OK(MPI_File_open(MPI_COMM_WORLD, path("arguments"), MPI_MODE_RDONLY, info, &reader));
  MPI_Info_free(&info);
  for (int kind = 0; kind < 3; ++kind) {
    OK(MPI_Type_create_hvector(3, 8, 4, MPI_BYTE, &type));
    read_by_view(reader, bytes, type, kind);
    OK(MPI_Type_create_hvector(3, 2, 20, MPI_BYTE, &inner));
    OK(MPI_Type_create_hvector(3, 1, 10, inner, &type));
    MPI_Type_free(&inner);
    read_by_view(reader, bytes, type, kind);
    OK(MPI_Type_indexed(3, four, back, MPI_BYTE, &type));
    read_by_view(reader, bytes, type, kind);
    OK(MPI_Type_create_hindexed(3, four, (MPI_Aint[]){16, 8, 0}, MPI_BYTE, &type)); /* a stride of -8 */
    read_by_view(reader, bytes, type, kind);
  }
  OK(MPI_Type_create_hvector(3, 1, 4, MPI_DOUBLE, &type)); /* at 0, 4 and 8 of each 16 bytes */
  OK(MPI_Type_commit(&type));
  OK(MPI_File_set_view(reader, 0, MPI_DOUBLE, type, "native", MPI_INFO_NULL));
  OK(MPI_File_seek(reader, 0, MPI_SEEK_END));
  OK(MPI_File_get_position(reader, &position));
  CHECK(position == BYTES / 16 * 3);
  MPI_Type_free(&type);
  OK(MPI_Type_create_hindexed(2, four, (MPI_Aint[]){-8, 0}, MPI_BYTE, &type));
  OK(MPI_Type_commit(&type));
  CHECK(class_of(MPI_File_set_view(reader, 0, MPI_BYTE, type, "native", MPI_INFO_NULL)) == MPI_ERR_ARG);
  MPI_Type_free(&type);
  OK(MPI_File_close(&reader));
  usable();
}

static void nothing(const char *how) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_write", how);
  MPI_Info_set(info, "romio_cb_read", how);
  OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", info));
  MPI_Info_free(&info);
  MPI_Status status;
  MPI_Datatype empty;
  OK(MPI_Type_contiguous(0, MPI_INT, &empty));
  OK(MPI_Type_commit(&empty));
  /* First on all ranks, then on all but one. */
  OK(MPI_File_write_at_all(file, 5, NULL, 0, MPI_INT, &status));
  CHECK(count_of(&status) == 0);
  OK(MPI_File_read_all(file, NULL, 3, empty, &status));
  CHECK(count_of(&status) == 0);
  OK(MPI_File_write_ordered(file, NULL, 0, MPI_INT, &status));
  int out = 42, in = -1;
  const int some = rank == 0 ? 1 : 0;
  OK(MPI_File_write_at_all(file, 1000, &out, some, MPI_INT, &status));
  CHECK(count_of(&status) == 4 * some);
  OK(MPI_File_read_at_all(file, 1000, &in, some, MPI_INT, &status));
  CHECK(count_of(&status) == 4 * some && in == (some ? 42 : -1));
  /* Beyond the end of the file nothing is read, by any rank. */
  OK(MPI_File_read_at_all(file, 5000, &in, 1, MPI_INT, &status));
  CHECK(count_of(&status) == 0);
  /* Nonblocking accesses of nothing. */
  MPI_Request request[2];
  OK(MPI_File_iwrite_at(file, 3, NULL, 0, MPI_INT, &request[0]));
  OK(MPI_File_iread_all(file, NULL, 0, MPI_INT, &request[1]));
  MPI_Status statuses[2];
  OK(MPI_Waitall(2, request, statuses));
  CHECK(count_of(&statuses[0]) == 0 && count_of(&statuses[1]) == 0);
  /* A view that shows no byte: nothing can be moved through it, and that is an error, not a hang. */
  OK(MPI_File_set_view(file, 0, MPI_INT, empty, "native", MPI_INFO_NULL));
  OK(MPI_File_read_all(file, &in, 0, MPI_INT, &status));
  CHECK(class_of(MPI_File_read_all(file, &in, some, MPI_INT, &status)) == MPI_ERR_IO);
  MPI_Type_free(&empty);
  usable();
}

/* Offsets that overflow must not turn into small ones. */
static void out_of_reach(void) {
  MPI_Datatype sparse;
  MPI_Status status;
  MPI_Offset byte = 0;
  char bytes[4] = "abc", first = 0;
  OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  OK(MPI_File_write_at_all(file, 0, "z", 1, MPI_BYTE, &status));
  OK(MPI_Type_create_resized(MPI_BYTE, 0, (MPI_Aint)1 << 40, &sparse));
  OK(MPI_Type_commit(&sparse));
  set_hints_view(0, sparse, "4096");
  CHECK(class_of(MPI_File_write_at(file, 1 << 24, bytes, 1, MPI_BYTE, &status)) == MPI_ERR_ARG); /* 2^64 */
  CHECK(class_of(MPI_File_write_at_all(file, 1 << 24, bytes, 1, MPI_BYTE, &status)) == MPI_ERR_ARG);
  CHECK(class_of(MPI_File_read_at_all(file, (1 << 23) - 2, bytes, 3, MPI_BYTE, &status)) == MPI_ERR_ARG); /* only the end */
  CHECK(class_of(MPI_File_get_byte_offset(file, 1 << 24, &byte)) == MPI_ERR_ARG);
  OK(MPI_File_get_byte_offset(file, 3, &byte));
  CHECK(byte == (MPI_Offset)3 << 40);
  MPI_Type_free(&sparse);
  OK(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL));
  CHECK(class_of(MPI_File_get_byte_offset(file, (MPI_Offset)1 << 62, &byte)) == MPI_ERR_ARG);
  CHECK(class_of(MPI_File_write_at(file, (MPI_Offset)1 << 62, bytes, 0, MPI_BYTE, &status)) == MPI_ERR_ARG);
  OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  OK(MPI_File_read_at(file, 0, &first, 1, MPI_BYTE, &status));
  CHECK(first == 'z');
}

/* Requested two-phase accesses whose rounds would take too long, or exceed an int. */
static void far_apart(void) {
  const MPI_Offset at = (MPI_Offset)1 << 44;
  char out = (char)('a' + rank), in = 0;
  set_hints_view(rank == ranks - 1 ? at : rank, MPI_BYTE, "4096");
  OK(MPI_File_write_at_all(file, 0, &out, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  MPI_Barrier(MPI_COMM_WORLD);
  OK(MPI_File_read_at(file, 0, &in, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK(in == out);
  in = 0;
  OK(MPI_File_read_at_all(file, 0, &in, 1, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK(in == out);
  OK(MPI_File_set_size(file, 1 << 20));
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  prefix = argc > 1 ? argv[1] : "/spate";
  OK(MPI_File_open(MPI_COMM_WORLD, path("arguments"), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
  usable();
  if (ranks > 1) unequal();
  overlapping_views();
  interleaved_tiles();
  views_to_read();
  nothing("enable");
  nothing("disable");
  out_of_reach();
  far_apart();
  usable();
  OK(MPI_File_close(&file));
  MPI_Finalize();
  return 0;
}
