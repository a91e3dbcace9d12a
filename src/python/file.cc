// SPDX-License-Identifier: Apache-2.0
// The Python class File: the calls on an open file or directory.
#include <fcntl.h>
#include <pybind11/stl.h>

#include <array>
#include <cstring>
#include <string_view>
#include <tuple>

#include "python/handles.h"

namespace spate::python {
namespace {

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
using Strided = std::tuple<std::uint64_t, std::uint64_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>>;

/// Runs `make(handle)` on an open file, which stays open meanwhile.
template <typename Make>
auto on(const File& file, const Make& make) {
  const std::shared_ptr<OpenedFile> opened = file.opened();
  spate_file* const handle = opened->handle();
  return call([&] { return make(handle); });
}

using Offset = Number<off_t>;

py::bytes pread(const File& file, Number<Py_ssize_t> wanted, Offset offset) {
  if (wanted < 0) raise_error(EINVAL, "a size below 0");
  const auto size = static_cast<std::size_t>(wanted);
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, wanted);
  if (bytes == nullptr) throw py::error_already_set();
  auto owned = py::reinterpret_steal<py::bytes>(bytes);
  char* const memory = PyBytes_AS_STRING(bytes);
  const ssize_t got = on(file, [&](spate_file* handle) { return spate_pread(handle, memory, size, offset); });
  if (static_cast<std::size_t>(got) == size) return owned;
  bytes = owned.release().ptr();
  if (_PyBytes_Resize(&bytes, got) != 0) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(bytes);
}

ssize_t pread_into(const File& file, const py::object& buffer, Offset offset) {
  const Memory memory(buffer, Memory::Use::kWrite);
  return on(file, [&](spate_file* handle) { return spate_pread(handle, memory.data(), memory.size(), offset); });
}

ssize_t pwrite(const File& file, const py::object& data, Offset offset) {
  const Memory memory(data, Memory::Use::kRead);
  return on(file, [&](spate_file* handle) { return spate_pwrite(handle, memory.data(), memory.size(), offset); });
}

ssize_t read_into(const File& file, const py::object& buffer) {
  const Memory memory(buffer, Memory::Use::kWrite);
  return on(file, [&](spate_file* handle) { return spate_read(handle, memory.data(), memory.size()); });
}

ssize_t write(const File& file, const py::object& data) {
  const Memory memory(data, Memory::Use::kRead);
  return on(file, [&](spate_file* handle) { return spate_write(handle, memory.data(), memory.size()); });
}

int start_write(spate_file* file, void* data, std::size_t size, off_t offset, spate_op** op) {
  return spate_pwrite_start(file, data, size, offset, op);
}

std::unique_ptr<Operation> pread_start(const File& file, const py::object& buffer, Offset offset) {
  return std::make_unique<Operation>(file.opened(), Memory(buffer, Memory::Use::kWrite), offset, &spate_pread_start);
}

std::unique_ptr<Operation> pwrite_start(const File& file, const py::object& data, Offset offset) {
  return std::make_unique<Operation>(file.opened(), Memory(data, Memory::Use::kRead), offset, &start_write);
}

std::vector<spate_range> ranges_of(const Ranges& pairs) {
  std::vector<spate_range> ranges;
  ranges.reserve(pairs.size());
  for (const auto& [offset, size] : pairs) ranges.push_back({offset, size});
  return ranges;
}

template <Memory::Use use, auto function>
ssize_t move_list(const File& file, const Ranges& pairs, const py::object& buffer) {
  const Memory memory(buffer, use);
  const std::vector<spate_range> ranges = ranges_of(pairs);
  const iovec piece{memory.data(), memory.size()};
  return on(file, [&](spate_file* handle) { return function(handle, ranges.data(), ranges.size(), &piece, 1); });
}

spate_strided pattern_of(const Strided& given) {
  spate_strided pattern{};
  const auto& levels = std::get<2>(given);
  if (levels.size() > SPATE_MAX_LEVELS) throw py::value_error("a strided pattern has at most 8 levels");
  pattern.offset = std::get<0>(given);
  pattern.block_size = std::get<1>(given);
  pattern.level_count = levels.size();
  for (std::size_t i = 0; i < levels.size(); ++i) pattern.levels[i] = {levels[i].first, levels[i].second};
  return pattern;
}

template <Memory::Use use, auto function>
ssize_t move_strided(const File& file, const Strided& given, const py::object& buffer) {
  const Memory memory(buffer, use);
  const spate_strided pattern = pattern_of(given);
  const iovec piece{memory.data(), memory.size()};
  return on(file, [&](spate_file* handle) { return function(handle, &pattern, &piece, 1); });
}

py::object fstat(const File& file) {
  struct stat st{};
  on(file, [&](spate_file* handle) { return spate_fstat(handle, &st); });
  return stat_result(st);
}

py::tuple layout(const File& file) {
  spate_layout told{};
  const std::shared_ptr<OpenedFile> opened = file.opened();  // the name is valid until it is closed
  on(file, [&](spate_file* handle) { return spate_get_layout(handle, &told); });
  return py::make_tuple(told.strip_bytes, told.target_count, told.first_target, decoded(told.distribution));
}

ssize_t copy_range(const File& from, const File& to, std::size_t size, off_t offset, off_t to_offset) {
  const std::shared_ptr<OpenedFile> target = to.opened();
  spate_file* const written = target->handle();
  return on(from,
            [&](spate_file* handle) { return spate_copy_file_range(handle, &offset, written, &to_offset, size, 0); });
}

std::unique_ptr<File> open_at(const File& directory, const Path& path, int flags, mode_t mode) {
  const std::shared_ptr<OpenedFile> opened = directory.opened();
  spate_file* below = nullptr;
  on(directory, [&](spate_file* handle) { return spate_openat(handle, path.c_str(), flags, mode, &below); });
  return std::make_unique<File>(std::make_shared<OpenedFile>(opened->connection(), below));
}

void unlink_at(const File& directory, const Path& path, bool is_directory) {
  const int flags = is_directory ? AT_REMOVEDIR : 0;
  on(directory, [&](spate_file* handle) { return spate_unlinkat(handle, path.c_str(), flags); });
}

/// The next entries of a directory except "." and "..": name, inode, d_type, and the attributes if the server has sent
/// them.
py::list read_entries(const File& file, std::size_t count) {
  constexpr std::size_t kMostEntries = 4096;  // 1.7 MiB of entries and attributes
  count = std::min(std::max<std::size_t>(count, 1), kMostEntries);
  std::vector<spate_dirent> entries(count);
  std::vector<struct stat> stats(count);
  py::list found;
  // A listing that returned only "." and ".." is not at its end.
  for (ssize_t got = 1; got > 0 && found.empty();) {
    got = on(file, [&](spate_file* handle) { return spate_readdir_many(handle, entries.data(), stats.data(), count); });
    for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
      const std::string_view name = entries[i].name;
      if (name == "." || name == "..") continue;
      const bool told = stats[i].st_nlink != 0;
      found.append(py::make_tuple(decoded(entries[i].name), entries[i].handle, entries[i].type,
                                  told ? stat_result(stats[i]) : py::none()));
    }
  }
  return found;
}

using FileClass = py::class_<File>;
using py::literals::operator""_a;

void bind_data(FileClass& file) {
  file.def("pread", &pread, "size"_a, "offset"_a,
           "Reads at an offset, into new bytes. Fewer than `size` only at the end of the file.")
      .def("pread_into", &pread_into, "buffer"_a, "offset"_a,
           "Reads at an offset, straight into a buffer (bytearray, numpy array, ...). Returns the number of bytes.")
      .def("pwrite", &pwrite, "data"_a, "offset"_a, "Writes all of `data` at an offset, without a copy of it.")
      .def("readinto", &read_into, "buffer"_a, "Reads at the file's position and moves it.")
      .def("write", &write, "data"_a, "Writes all of `data` at the file's position, or with O_APPEND at its end.")
      .def(
          "seek",
          [](const File& self, Offset offset, int whence) {
            return on(self, [&](spate_file* handle) { return spate_lseek(handle, offset, whence); });
          },
          "offset"_a, "whence"_a = 0, "Moves the position, as os.lseek() does, with SEEK_DATA and SEEK_HOLE.")
      .def("pread_start", &pread_start, "buffer"_a, "offset"_a,
           "Starts a read into a buffer. Nothing else may use the buffer until the operation has ended.")
      .def("pwrite_start", &pwrite_start, "data"_a, "offset"_a,
           "Starts a write. Nothing may change the data until the operation has ended.")
      .def("read_list", &move_list<Memory::Use::kWrite, &spate_read_list>, "ranges"_a, "buffer"_a,
           "Reads pieces of the file, each (offset, size), one after the other into a buffer: one request to each "
           "server.")
      .def("write_list", &move_list<Memory::Use::kRead, &spate_write_list>, "ranges"_a, "data"_a,
           "Writes data to pieces of the file, each (offset, size), which do not overlap.")
      .def("read_strided", &move_strided<Memory::Use::kWrite, &spate_read_strided>, "pattern"_a, "buffer"_a,
           "Reads what a Strided pattern shows, such as a box of an array, into a buffer.")
      .def("write_strided", &move_strided<Memory::Use::kRead, &spate_write_strided>, "pattern"_a, "data"_a,
           "Writes data to where a Strided pattern shows.")
      .def("copy_range", &copy_range, "to"_a, "size"_a, "offset"_a, "to_offset"_a,
           "Copies bytes to another file; between files of one layout the servers copy. Returns how many; 0 at the "
           "end.");
}

void bind_state(FileClass& file) {
  file.def("stat", &fstat, "Its attributes, as os.stat_result. st_ino is never used again in this file system.")
      .def("layout", &layout, "How it is spread: strip_bytes, target_count, first_target, distribution.")
      .def(
          "fsync", [](const File& self) { on(self, [](spate_file* handle) { return spate_fsync(handle); }); },
          "Afterwards what was written survives a crash of any machine.")
      .def(
          "truncate",
          [](const File& self, Offset size) {
            on(self, [&](spate_file* handle) { return spate_ftruncate(handle, size); });
          },
          "size"_a, "Makes it `size` bytes long.")
      .def(
          "allocate",
          [](const File& self, int mode, Offset offset, Offset size) {
            on(self, [&](spate_file* handle) { return spate_fallocate(handle, mode, offset, size); });
          },
          "mode"_a, "offset"_a, "size"_a, "fallocate(2): reserves space, punches holes, writes zeros.")
      .def(
          "flock",
          [](const File& self, int operation) {
            on(self, [&](spate_file* handle) { return spate_flock(handle, operation); });
          },
          "operation"_a, "flock(2), across all clients: fcntl.LOCK_SH, LOCK_EX, LOCK_UN, with LOCK_NB.")
      .def("read_entries", &read_entries, "count"_a = 1024,
           "The next entries of a directory: (name, inode, type, stat or None). Empty at the end.")
      .def("open_at", &open_at, "path"_a, "flags"_a = O_RDONLY, "mode"_a = 0666,
           "open_file() of a path that begins at this directory, wherever that is now.")
      .def("unlink_at", &unlink_at, "path"_a, py::kw_only(), "directory"_a = false,
           "unlink() of such a path; with directory=True, rmdir().")
      .def("close", &File::close, "Ends the open. EBUSY, and it stays open, while other threads use it.")
      .def_property_readonly("closed", &File::closed, "Whether it was closed.")
      .def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__", [](File& self, const py::args&) { self.close(); });
}

}  // namespace

void bind_file(py::module_& module) {
  FileClass file(module, "File", "An open file or directory of Spate. FileSystem.open_file() makes one.");
  bind_data(file);
  bind_state(file);
}

}  // namespace spate::python
