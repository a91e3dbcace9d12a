// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "python/handles.h"

namespace spate::python {
namespace {

double seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::int64_t nanoseconds(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

py::object stat_result(const struct stat& st) {
  const py::tuple fields = py::make_tuple(st.st_mode, st.st_ino, st.st_dev, st.st_nlink, st.st_uid, st.st_gid,
                                          st.st_size, st.st_atim.tv_sec, st.st_mtim.tv_sec, st.st_ctim.tv_sec);
  using py::literals::operator""_a;
  const py::dict more("st_atime"_a = seconds(st.st_atim), "st_mtime"_a = seconds(st.st_mtim),
                      "st_ctime"_a = seconds(st.st_ctim), "st_atime_ns"_a = nanoseconds(st.st_atim),
                      "st_mtime_ns"_a = nanoseconds(st.st_mtim), "st_ctime_ns"_a = nanoseconds(st.st_ctim),
                      "st_blksize"_a = st.st_blksize, "st_blocks"_a = st.st_blocks, "st_rdev"_a = st.st_rdev);
  return py::module_::import("os").attr("stat_result")(fields, more);
}

}  // namespace spate::python
