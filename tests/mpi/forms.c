// SPDX-License-Identifier: Apache-2.0
// Forms of access: the representation external32 and registered ones, the functions with large counts where MPI has them, hints for
// aggregators.
//   forms PREFIX
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

enum { N = 1000 };
static int rank, ranks;
static const char *prefix;

static MPI_File opened(const char *name, MPI_Info info) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", prefix, name);
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file));
  return file;
}

static int class_of(int code) {
  int class = -1;
  MPI_Error_class(code, &class);
  return class;
}

/* Checks the bytes that another machine, or another MPI, reads. */
static void check_big_endian(MPI_File file, MPI_Offset at, int value) {
  unsigned char bytes[4];
  OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  OK(MPI_File_read_at(file, at, bytes, 4, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK((bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3]) == value);
}

/* Types of different size in file and memory: offsets in the view count the file's size. */
static void other_size_in_file(MPI_File file) {
  MPI_Aint stored = 0, extent = 0;
  char packed[8];
  OK(MPI_Pack_external("external32", &(long){0}, 1, MPI_LONG, packed, 8, &stored)); /* Open MPI's MPI_Pack_external_size differs */
  MPI_Datatype pairs, tile;
  OK(MPI_Type_contiguous(2, MPI_LONG, &pairs)); /* elements, so their places are scaled */
  OK(MPI_Type_create_resized(pairs, 0, 2 * stored * ranks, &tile)); /* in bytes of the file */
  OK(MPI_Type_commit(&tile));
  OK(MPI_File_set_view(file, (2 << 20) + 2 * stored * rank, MPI_LONG, tile, "external32", MPI_INFO_NULL));
  OK(MPI_File_get_type_extent(file, MPI_LONG, &extent));
  CHECK(extent == stored);
  MPI_Offset at = -1;
  OK(MPI_File_get_byte_offset(file, 3, &at));
  CHECK(at == (2 << 20) + 2 * stored * (ranks + rank) + stored);
  long out[7], in[7] = {0};
  for (int i = 0; i < 7; ++i) out[i] = rank * 100 + i;
  MPI_Status status;
  OK(MPI_File_write_at_all(file, 0, out, 7, MPI_LONG, &status));
  int count = -1;
  MPI_Get_count(&status, MPI_LONG, &count);
  CHECK(count == 7);
  OK(MPI_File_read_at_all(file, 2, in, 5, MPI_LONG, &status));
  MPI_Get_count(&status, MPI_LONG, &count);
  CHECK(count == 5 && memcmp(in, out + 2, 5 * sizeof(long)) == 0);
  OK(MPI_File_set_view(file, 2 << 20, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  unsigned char last[8];
  OK(MPI_File_read_at(file, 2 * stored * rank, last, 2 * (int)stored < 8 ? 2 * (int)stored : 8, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK(last[stored - 1] == (unsigned char)out[0]); /* big-endian */
  MPI_Type_free(&pairs);
  MPI_Type_free(&tile);
}

/* A representation that the program defines: an int is four digits and a blank; it refuses all else. */
static int extra_state = 77;
static int digits_extent(MPI_Datatype type, MPI_Aint *extent, void *extra) {
  CHECK(extra == &extra_state);
  *extent = 5;
  return type == MPI_INT ? MPI_SUCCESS : MPI_ERR_TYPE;
}
/* Returns the address of a value: only contiguous ints and every other int are used here. */
static int *value_at(void *memory, MPI_Datatype type, long i) {
  MPI_Aint lb, extent;
  int size;
  MPI_Type_get_extent(type, &lb, &extent);
  MPI_Type_size(type, &size);
  const long step = extent == size ? 1 : 2;
  return (int *)memory + i * step;
}
static int write_digits(void *memory, MPI_Datatype type, int count, void *values, MPI_Offset position, void *extra) {
  CHECK(extra == &extra_state);
  for (int i = 0; i < count; ++i) {
    char text[16];
    snprintf(text, sizeof text, "%04d ", *value_at(memory, type, position + i));
    memcpy((char *)values + 5 * i, text, 5);
  }
  return MPI_SUCCESS;
}
static int read_digits(void *memory, MPI_Datatype type, int count, void *values, MPI_Offset position, void *extra) {
  CHECK(extra == &extra_state);
  for (int i = 0; i < count; ++i) {
    const char *const text = (char *)values + 5 * i;
    if (text[4] != ' ') return MPI_ERR_CONVERSION;
    *value_at(memory, type, position + i) = atoi(text);
  }
  return MPI_SUCCESS;
}

static int plain_extent(MPI_Datatype type, MPI_Aint *extent, void *extra) {
  MPI_Aint lb;
  (void)extra;
  return MPI_Type_get_extent(type, &lb, extent);
}

static void registered(void) {
  OK(MPI_Register_datarep("digits", read_digits, write_digits, digits_extent, &extra_state));
  CHECK(class_of(MPI_Register_datarep("digits", read_digits, write_digits, digits_extent, &extra_state)) == MPI_ERR_DUP_DATAREP);
  CHECK(class_of(MPI_Register_datarep("native", read_digits, write_digits, digits_extent, &extra_state)) == MPI_ERR_DUP_DATAREP);
  MPI_File file = opened("digits", MPI_INFO_NULL);
  CHECK(class_of(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, "digits", MPI_INFO_NULL)) == MPI_ERR_TYPE);
  MPI_Datatype columns, every_other;
  OK(MPI_Type_create_resized(MPI_INT, 0, 5 * ranks, &columns));
  OK(MPI_Type_commit(&columns));
  OK(MPI_Type_vector(10, 1, 2, MPI_INT, &every_other));
  OK(MPI_Type_commit(&every_other));
  OK(MPI_File_set_view(file, 5 * rank, MPI_INT, columns, "digits", MPI_INFO_NULL));
  MPI_Offset displacement;
  MPI_Datatype etype, filetype;
  char name[MPI_MAX_DATAREP_STRING];
  OK(MPI_File_get_view(file, &displacement, &etype, &filetype, name));
  CHECK(strcmp(name, "digits") == 0);
  MPI_Type_free(&filetype);
  int out[20], in[20], count = -1;
  for (int i = 0; i < 20; ++i) {
    out[i] = rank * 100 + i;
    in[i] = -1;
  }
  MPI_Status status;
  MPI_Request request;
  OK(MPI_File_write_at_all(file, 0, out, 1, every_other, &status));
  OK(MPI_File_iwrite_at(file, 10, out, 10, MPI_INT, &request));
  OK(MPI_Wait(&request, &status));
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == 10);
  MPI_Barrier(MPI_COMM_WORLD);
  OK(MPI_File_iread_at_all(file, 0, in, 1, every_other, &request));
  OK(MPI_Wait(&request, &status));
  for (int i = 0; i < 20; ++i) CHECK(in[i] == (i % 2 == 0 ? out[i] : -1));
  /* The file ends within the access. */
  OK(MPI_File_read_at_all(file, 15, in, 20, MPI_INT, &status));
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == 5 && memcmp(in, out + 5, 5 * sizeof(int)) == 0 && in[6] == out[6]);
  char text[6] = "";
  OK(MPI_File_set_view(file, 0, MPI_CHAR, MPI_CHAR, "native", MPI_INFO_NULL));
  OK(MPI_File_read_at(file, 5 * ranks + 5 * rank, text, 5, MPI_CHAR, &status));
  CHECK(atoi(text) == out[2] && text[4] == ' ');
  /* If the program's function refuses, every rank gets an error. */
  MPI_Barrier(MPI_COMM_WORLD);
  OK(MPI_File_write_at(file, 5 * rank, "12345", 5, MPI_CHAR, &status));
  OK(MPI_File_set_view(file, 5 * rank, MPI_INT, columns, "digits", MPI_INFO_NULL));
  CHECK(class_of(MPI_File_read_at_all(file, 0, in, 1, MPI_INT, &status)) == MPI_ERR_CONVERSION);
  /* Without functions the values are as in memory. */
  OK(MPI_Register_datarep("plain", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, plain_extent, NULL));
  OK(MPI_File_set_view(file, 1000 + 400 * rank, MPI_INT, MPI_INT, "plain", MPI_INFO_NULL));
  OK(MPI_File_write_at_all(file, 0, out, 1, every_other, &status));
  memset(in, 0, sizeof in);
  OK(MPI_File_read_at_all(file, 0, in, 10, MPI_INT, &status));
  for (int i = 0; i < 10; ++i) CHECK(in[i] == out[2 * i]);
  MPI_Type_free(&columns);
  MPI_Type_free(&every_other);
  OK(MPI_File_close(&file));
}

static void external32(void) {
  MPI_File file = opened("external32", MPI_INFO_NULL);
  MPI_Datatype columns;
  OK(MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)ranks * 4, &columns));
  OK(MPI_Type_commit(&columns));
  OK(MPI_File_set_view(file, (MPI_Offset)rank * 4, MPI_INT, columns, "external32", MPI_INFO_NULL));
  MPI_Offset displacement;
  MPI_Datatype etype, filetype;
  char name[MPI_MAX_DATAREP_STRING];
  OK(MPI_File_get_view(file, &displacement, &etype, &filetype, name));
  CHECK(strcmp(name, "external32") == 0);
  if (filetype != MPI_INT) MPI_Type_free(&filetype);
  static int out[2 * N], in[2 * N];
  MPI_Datatype every_other;
  OK(MPI_Type_vector(N, 1, 2, MPI_INT, &every_other));
  OK(MPI_Type_commit(&every_other));
  for (int i = 0; i < 2 * N; ++i) {
    out[i] = (rank << 20) + i;
    in[i] = -1;
  }
  MPI_Status status;
  OK(MPI_File_write_at_all(file, 0, out, 1, every_other, &status));
  MPI_Barrier(MPI_COMM_WORLD);
  OK(MPI_File_read_at(file, 0, in, 1, every_other, &status));
  int count = -1;
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == N);
  for (int i = 0; i < N; ++i) CHECK(in[2 * i] == out[2 * i] && in[2 * i + 1] == -1);
  /* A read across the end of the file. */
  int tail[4] = {7, 7, 7, 7};
  OK(MPI_File_read_at_all(file, N - 2, tail, 4, MPI_INT, &status));
  CHECK(tail[0] == out[2 * N - 4] && tail[1] == out[2 * N - 2]);
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(count == 2);
  check_big_endian(file, ((MPI_Offset)2 * ranks + rank) * 4, out[4]);
  double number = 1.5, back = 0;
  OK(MPI_File_set_view(file, 1 << 20, MPI_DOUBLE, MPI_DOUBLE, "external32", MPI_INFO_NULL));
  OK(MPI_File_write_at(file, rank, &number, 1, MPI_DOUBLE, &status));
  OK(MPI_File_read_at(file, rank, &back, 1, MPI_DOUBLE, &status));
  CHECK(back == number);
  other_size_in_file(file);
  MPI_Type_free(&columns);
  MPI_Type_free(&every_other);
  OK(MPI_File_close(&file));
}

#if MPI_VERSION >= 4
static void check_write(MPI_File file, MPI_Offset at, char value) {
  char byte = 0;
  OK(MPI_File_read_at_c(file, at, &byte, 1, MPI_CHAR, MPI_STATUS_IGNORE));
  CHECK(byte == value);
}

static void large_counts(void) {
  MPI_File file = opened("large", MPI_INFO_NULL);
  const MPI_Count size = 100;
  const MPI_Offset own = rank * 10000;
  char bytes[100];
  MPI_Status status;
  MPI_Request request;
  OK(MPI_File_set_view(file, 0, MPI_CHAR, MPI_CHAR, "native", MPI_INFO_NULL));
  memset(bytes, 'a', sizeof bytes);
  OK(MPI_File_write_at_c(file, own, bytes, size, MPI_CHAR, &status));
  MPI_Count count = 0;
  OK(MPI_Get_count_c(&status, MPI_CHAR, &count));
  CHECK(count == size);
  check_write(file, own + 99, 'a');
  OK(MPI_File_write_at_all_c(file, own + 100, bytes, size, MPI_CHAR, &status));
  check_write(file, own + 199, 'a');
  OK(MPI_File_seek(file, own + 200, MPI_SEEK_SET));
  OK(MPI_File_write_c(file, bytes, size, MPI_CHAR, &status));
  OK(MPI_File_write_all_c(file, bytes, size, MPI_CHAR, &status));
  OK(MPI_File_iwrite_c(file, bytes, size, MPI_CHAR, &request));
  OK(MPI_Wait(&request, &status));
  OK(MPI_File_iwrite_at_c(file, own + 500, bytes, size, MPI_CHAR, &request));
  OK(MPI_Wait(&request, &status));
  OK(MPI_File_iwrite_all_c(file, bytes, 0, MPI_CHAR, &request));
  OK(MPI_Wait(&request, &status));
  OK(MPI_File_iwrite_at_all_c(file, own + 600, bytes, size, MPI_CHAR, &request));
  OK(MPI_Wait(&request, &status));
  OK(MPI_File_write_at_all_begin_c(file, own + 700, bytes, size, MPI_CHAR));
  OK(MPI_File_write_at_all_end(file, bytes, &status));
  OK(MPI_File_seek(file, own + 800, MPI_SEEK_SET));
  OK(MPI_File_write_all_begin_c(file, bytes, size, MPI_CHAR));
  OK(MPI_File_write_all_end(file, bytes, &status));
  char got[900];
  memset(got, 0, sizeof got);
  OK(MPI_File_read_at_all_c(file, own, got, 900, MPI_CHAR, &status));
  for (int i = 0; i < 900; ++i) CHECK(got[i] == 'a');
  OK(MPI_File_seek(file, own, MPI_SEEK_SET));
  OK(MPI_File_read_c(file, got, size, MPI_CHAR, &status));
  OK(MPI_File_read_all_c(file, got, size, MPI_CHAR, &status));
  OK(MPI_File_iread_c(file, got, size, MPI_CHAR, &request));
  OK(MPI_Wait(&request, &status));
  OK(MPI_File_iread_all_c(file, got, size, MPI_CHAR, &request));
  OK(MPI_Wait(&request, &status));
  OK(MPI_File_iread_at_c(file, own, got, size, MPI_CHAR, &request));
  OK(MPI_Wait(&request, &status));
  OK(MPI_File_iread_at_all_c(file, own, got, size, MPI_CHAR, &request));
  OK(MPI_Wait(&request, &status));
  OK(MPI_File_read_all_begin_c(file, got, size, MPI_CHAR));
  OK(MPI_File_read_all_end(file, got, &status));
  OK(MPI_File_read_at_all_begin_c(file, own, got, size, MPI_CHAR));
  OK(MPI_File_read_at_all_end(file, got, &status));
  OK(MPI_Get_count_c(&status, MPI_CHAR, &count));
  CHECK(count == size);
  MPI_Offset place = 0;
  OK(MPI_File_get_position(file, &place));
  CHECK(place == own + 500);
  /* Each rank's piece is in the file once, in any order. */
  OK(MPI_File_seek_shared(file, 1 << 20, MPI_SEEK_SET));
  OK(MPI_File_write_shared_c(file, bytes, size, MPI_CHAR, &status));
  OK(MPI_File_iwrite_shared_c(file, bytes, size, MPI_CHAR, &request));
  OK(MPI_Wait(&request, &status));
  MPI_Barrier(MPI_COMM_WORLD);
  OK(MPI_File_write_ordered_c(file, bytes, size, MPI_CHAR, &status));
  OK(MPI_File_write_ordered_begin_c(file, bytes, size, MPI_CHAR));
  OK(MPI_File_write_ordered_end(file, bytes, &status));
  OK(MPI_File_get_position_shared(file, &place));
  CHECK(place == (1 << 20) + 400 * ranks);
  MPI_Barrier(MPI_COMM_WORLD);
  OK(MPI_File_seek_shared(file, 1 << 20, MPI_SEEK_SET));
  OK(MPI_File_read_shared_c(file, got, size, MPI_CHAR, &status));
  OK(MPI_File_iread_shared_c(file, got, size, MPI_CHAR, &request));
  OK(MPI_Wait(&request, &status));
  MPI_Barrier(MPI_COMM_WORLD);
  OK(MPI_File_read_ordered_c(file, got, size, MPI_CHAR, &status));
  OK(MPI_File_read_ordered_begin_c(file, got, size, MPI_CHAR));
  OK(MPI_File_read_ordered_end(file, got, &status));
  for (int i = 0; i < 100; ++i) CHECK(got[i] == 'a');
  MPI_Count extent = 0;
  OK(MPI_File_get_type_extent_c(file, MPI_INT, &extent));
  CHECK(extent == 4);
  OK(MPI_File_close(&file));
}
#else
static void large_counts(void) {}
#endif

static void shown(MPI_File file, const char *key, const char *want) {
  MPI_Info info;
  OK(MPI_File_get_info(file, &info));
  char value[100] = "";
  int found = 0;
  OK(MPI_Info_get(info, key, 99, value, &found));
  CHECK(want == NULL ? !found : found && strcmp(value, want) == 0);
  MPI_Info_free(&info);
}

static void aggregators(const char *list, const char *nodes, const char *want_nodes, const char *want_list) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "cb_config_list", list);
  if (nodes != NULL) MPI_Info_set(info, "cb_nodes", nodes);
  MPI_Info_set(info, "romio_cb_write", "enable");
  MPI_Info_set(info, "romio_no_indep_rw", "true");
  MPI_File file = opened("aggregators", info);
  MPI_Info_free(&info);
  shown(file, "cb_nodes", want_nodes);
  shown(file, "cb_config_list", want_list);
  shown(file, "romio_no_indep_rw", NULL);
  int out = rank, in = -1;
  OK(MPI_File_write_at_all(file, (MPI_Offset)rank * 4, &out, 1, MPI_INT, MPI_STATUS_IGNORE));
  MPI_Barrier(MPI_COMM_WORLD);
  OK(MPI_File_read_at(file, (MPI_Offset)((rank + 1) % ranks) * 4, &in, 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK(in == (rank + 1) % ranks);
  OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  prefix = argc > 1 ? argv[1] : "/spate";
  external32();
  registered();
  large_counts();
  char all[10];
  snprintf(all, sizeof all, "%d", ranks);
  aggregators("*:1", NULL, "1", "*:1");
  aggregators("*:*", NULL, all, "*:*");
  aggregators("*:1", "4", "1", "*:1");
  aggregators("host1,host2", NULL, "1", NULL);
  MPI_Finalize();
  return 0;
}
