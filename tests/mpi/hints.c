// SPDX-License-Identifier: Apache-2.0
// Hints of the program and of ROMIO_HINTS (hints.py writes that file), and layouts that cannot be made.
//   hints PREFIX
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition);             \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                      \
    }                                                                                    \
  } while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

static int rank;
static const char *prefix;

static int opened(const char *key, const char *value, MPI_File *file) {
  char path[512];
  MPI_Info info;
  snprintf(path, sizeof path, "%s/hints", prefix);
  MPI_Info_create(&info);
  MPI_Info_set(info, key, value);
  const int code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, file);
  MPI_Info_free(&info);
  return code;
}

static void shown(MPI_File file, const char *key, const char *want) {
  MPI_Info info;
  char value[100] = "";
  int found = 0;
  OK(MPI_File_get_info(file, &info));
  OK(MPI_Info_get(info, key, 99, value, &found));
  CHECK(found && strcmp(value, want) == 0);
  MPI_Info_free(&info);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  prefix = argc > 1 ? argv[1] : "/spate";
  MPI_File file;
  OK(opened("striping_unit", "16384", &file));
  shown(file, "striping_factor", "2"); /* of ROMIO_HINTS */
  shown(file, "striping_unit", "16384"); /* the program's hint wins over ROMIO_HINTS */
  shown(file, "cb_buffer_size", "4194304"); /* a wrong hint changes nothing */
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_read", "perhaps");
  for (int i = 0; i < 3; ++i) OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", info));
  OK(MPI_File_set_info(file, info));
  MPI_Info_free(&info);
  OK(MPI_File_close(&file));
  OK(opened("striping_factor", "100", &file));
  shown(file, "striping_factor", "3"); /* also reported */
  OK(MPI_File_close(&file));
  const char *const impossible[][2] = {{"start_iodevice", "77"}, {"spate_distribution", "by chance"}};
  for (int i = 0; i < 2; ++i) {
    int class = MPI_SUCCESS;
    MPI_Error_class(opened(impossible[i][0], impossible[i][1], &file), &class);
    CHECK(class != MPI_SUCCESS && file == MPI_FILE_NULL);
  }
  MPI_Finalize();
  return 0;
}
