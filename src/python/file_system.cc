// SPDX-License-Identifier: Apache-2.0
// The Python class FileSystem of _spate: a session, and the calls on names.
#include <fcntl.h>
#include <pybind11/stl.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <map>

#include "python/handles.h"

namespace spate::python {
namespace {

/// A session that Python code closes.
class FileSystem {
 public:
  explicit FileSystem(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  /// Throws ValueError after the session was closed.
  [[nodiscard]] std::shared_ptr<Connection> connection() const {
    if (connection_ == nullptr) throw py::value_error("the file system is closed");
    return connection_;
  }
  [[nodiscard]] bool closed() const { return connection_ == nullptr; }
  void close() { connection_.reset(); }

 private:
  std::shared_ptr<Connection> connection_;
};

std::unique_ptr<FileSystem> connect(const std::optional<Path>& where,
                                    const std::map<std::string, std::string>& settings, mode_t umask,
                                    bool progress_thread) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : settings) lines.push_back(key + "=" + value);
  std::vector<const char*> pointers;
  for (const std::string& line : lines) pointers.push_back(line.c_str());
  pointers.push_back(nullptr);
  const spate_options options{sizeof options, progress_thread ? static_cast<unsigned>(SPATE_PROGRESS_THREAD) : 0U,
                              umask, pointers.data()};
  return std::make_unique<FileSystem>(std::make_shared<Connection>(where ? where->c_str() : nullptr, options));
}

template <typename Make>
auto within(const FileSystem& fs, const Make& make) {
  const std::shared_ptr<Connection> connection = fs.connection();
  spate_fs* const handle = connection->handle();
  return call([&] { return make(handle); });
}

std::unique_ptr<File> open_file(
    const FileSystem& fs, const Path& path, int flags, mode_t mode,
    const std::optional<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::string>>& how) {
  const std::shared_ptr<Connection> connection = fs.connection();
  spate_layout layout{};
  if (how) layout = {std::get<0>(*how), std::get<1>(*how), std::get<2>(*how), std::get<3>(*how).c_str()};
  if (how && std::get<3>(*how).empty()) layout.distribution = nullptr;
  spate_file* file = nullptr;
  within(fs, [&](spate_fs* handle) {
    return how ? spate_open_layout(handle, path.c_str(), flags, mode, &layout, &file)
               : spate_open(handle, path.c_str(), flags, mode, &file);
  });
  return std::make_unique<File>(std::make_shared<OpenedFile>(connection, file));
}

std::unique_ptr<File> open_inode(const FileSystem& fs, std::uint64_t inode, int flags) {
  const std::shared_ptr<Connection> connection = fs.connection();
  spate_file* file = nullptr;
  within(fs, [&](spate_fs* handle) { return spate_open_inode(handle, inode, flags, &file); });
  return std::make_unique<File>(std::make_shared<OpenedFile>(connection, file));
}

py::object stat_path(const FileSystem& fs, const Path& path, bool follow) {
  struct stat st{};
  within(fs, [&](spate_fs* handle) {
    return follow ? spate_stat(handle, path.c_str(), &st) : spate_lstat(handle, path.c_str(), &st);
  });
  return stat_result(st);
}

bool access(const FileSystem& fs, const Path& path, int mode) {
  const std::shared_ptr<Connection> connection = fs.connection();
  spate_fs* const handle = connection->handle();
  const int result = [&] {
    const py::gil_scoped_release released;
    return spate_access(handle, path.c_str(), mode);
  }();
  if (result < 0 && result != -EACCES && result != -ENOENT && result != -ENOTDIR && result != -EROFS)
    raise_error(static_cast<long>(result));
  return result == 0;
}

/// The result of `ask(memory, size)`. It is asked again with more memory if the result grew in between.
template <typename Ask>
std::string grown(const FileSystem& fs, const Ask& ask) {
  std::string memory(256, '\0');
  for (;;) {
    const std::shared_ptr<Connection> connection = fs.connection();
    spate_fs* const handle = connection->handle();
    ssize_t got = 0;
    ssize_t needed = 0;
    {
      const py::gil_scoped_release released;
      got = ask(handle, memory.data(), memory.size());
      if (got == -ERANGE) needed = ask(handle, nullptr, 0);
    }
    if (got < 0 && got != -ERANGE) raise_error(static_cast<long>(got));
    if (needed < 0) raise_error(static_cast<long>(needed));
    if (got >= 0) {
      memory.resize(static_cast<std::size_t>(got));
      return memory;
    }
    memory.resize(static_cast<std::size_t>(needed) + 1);
  }
}

py::str readlink(const FileSystem& fs, const Path& path) {
  std::string target(4096, '\0');  // no target of a link is longer
  within(fs, [&](spate_fs* handle) { return spate_readlink(handle, path.c_str(), target.data(), target.size() - 1); });
  return decoded(target.c_str());
}

py::bytes getxattr(const FileSystem& fs, const Path& path, const Path& name, bool follow) {
  const int flags = follow ? 0 : AT_SYMLINK_NOFOLLOW;
  return py::bytes(grown(fs, [&](spate_fs* handle, char* value, std::size_t size) {
    return spate_getxattr(handle, path.c_str(), name.c_str(), value, size, flags);
  }));
}

py::list listxattr(const FileSystem& fs, const Path& path, bool follow) {
  const int flags = follow ? 0 : AT_SYMLINK_NOFOLLOW;
  const std::string names = grown(fs, [&](spate_fs* handle, char* list, std::size_t size) {
    return spate_listxattr(handle, path.c_str(), list, size, flags);
  });
  py::list found;
  for (std::size_t at = 0; at < names.size(); at += std::char_traits<char>::length(names.c_str() + at) + 1)
    found.append(decoded(names.c_str() + at));
  return found;
}

void setxattr(const FileSystem& fs, const Path& path, const Path& name, const py::object& value, int flags) {
  const Memory memory(value, Memory::Use::kRead);
  within(fs, [&](spate_fs* handle) {
    return spate_setxattr(handle, path.c_str(), name.c_str(), memory.data(), memory.size(), flags);
  });
}

/// Nanoseconds since 1970, any int, as seconds and a rest that is not negative. OverflowError: the seconds do not fit
/// into a time_t.
timespec time_of(const py::object& ns) {
  constexpr long kSecond = 1'000'000'000;
  const auto whole = py::reinterpret_steal<py::object>(PyNumber_Index(ns.ptr()));
  if (!whole) throw py::error_already_set();
  const auto parts = py::reinterpret_steal<py::tuple>(PyNumber_Divmod(whole.ptr(), py::int_(kSecond).ptr()));
  if (!parts) throw py::error_already_set();
  constexpr auto kLimits = std::numeric_limits<time_t>();
  return {number_between(parts[0], kLimits.min(), kLimits.max()), parts[1].cast<long>()};
}

void utime(const FileSystem& fs, const Path& path, const std::optional<std::pair<py::object, py::object>>& ns,
           bool follow) {
  timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
  if (ns) {
    times[0] = time_of(ns->first);
    times[1] = time_of(ns->second);
  }
  within(fs, [&](spate_fs* handle) {
    return spate_utimens(handle, path.c_str(), times, follow ? 0 : AT_SYMLINK_NOFOLLOW);
  });
}

py::object statvfs(const FileSystem& fs) {
  struct statvfs st{};
  within(fs, [&](spate_fs* handle) { return spate_statvfs(handle, &st); });
  return py::module_::import("os").attr("statvfs_result")(
      py::make_tuple(st.f_bsize, st.f_frsize, st.f_blocks, st.f_bfree, st.f_bavail, st.f_files, st.f_ffree, st.f_favail,
                     st.f_flag, st.f_namemax));
}

/// A uid or gid. -1: the present one stays.
uid_t owner(Number<std::int64_t> given) {
  // The number that C has for -1 is not an owner.
  if (given < -1 || given >= std::numeric_limits<uid_t>::max())
    number_between(py::int_(static_cast<std::int64_t>(given)), -1, std::numeric_limits<uid_t>::max() - 1LL);
  return static_cast<uid_t>(given);
}

using FileSystemClass = py::class_<FileSystem>;
using py::literals::operator""_a;

void bind_opening(FileSystemClass& fs) {
  fs.def(py::init(&connect), "where"_a = py::none(), py::kw_only(), "settings"_a = std::map<std::string, std::string>(),
         "umask"_a = 0022, "progress_thread"_a = false,
         "Uses a file system. where: its spate.toml or the folder of it; None: SPATE_FS, else the last `spate up`.\n"
         "settings: \"section.key\" to value, over spate.toml. umask: bits taken from the modes of new objects.\n"
         "progress_thread: operations that were started go on while no thread waits for them.")
      .def("open_file", &open_file, "path"_a, "flags"_a = O_RDONLY, "mode"_a = 0666, "layout"_a = py::none(),
           "os.open() of Spate. layout: (strip_bytes, target_count, first_target, distribution) of a file that it "
           "creates; 0 and \"\": as the directory says.")
      .def("open_inode", &open_inode, "inode"_a, "flags"_a = O_RDONLY,
           "Opens an object by the st_ino that another process has got from stat(), without a walk along a path.")
      .def("statvfs", &statvfs, "Size and free space of all servers, as os.statvfs_result.")
      .def(
          "sync", [](const FileSystem& self) { within(self, [](spate_fs* handle) { return spate_sync(handle); }); },
          "Afterwards all changes of names that were acknowledged survive a crash of the meta server.")
      .def("close", &FileSystem::close, "Ends the session, as soon as the last of its files is closed.")
      .def_property_readonly("closed", &FileSystem::closed, "Whether it was closed.")
      .def("__enter__", [](const py::object& self) { return self; })
      .def("__exit__", [](FileSystem& self, const py::args&) { self.close(); });
}

/// A call of one path and nothing else.
template <auto function>
void of_path(const FileSystem& fs, const Path& path) {
  within(fs, [&](spate_fs* handle) { return function(handle, path.c_str()); });
}
/// A call of two paths.
template <auto function>
void of_paths(const FileSystem& fs, const Path& first, const Path& second) {
  within(fs, [&](spate_fs* handle) { return function(handle, first.c_str(), second.c_str()); });
}

void rename(const FileSystem& fs, const Path& from, const Path& to, unsigned flags) {
  within(fs, [&](spate_fs* handle) { return spate_rename(handle, from.c_str(), to.c_str(), flags); });
}

void bind_names(FileSystemClass& fs) {
  fs.def("stat", &stat_path, "path"_a, py::kw_only(), "follow_symlinks"_a = true, "Attributes, as os.stat_result.")
      .def("access", &access, "path"_a, "mode"_a, "os.access(): whether this user may.")
      .def(
          "mkdir",
          [](const FileSystem& self, const Path& path, mode_t mode) {
            within(self, [&](spate_fs* handle) { return spate_mkdir(handle, path.c_str(), mode); });
          },
          "path"_a, "mode"_a = 0777, "Makes a directory.")
      .def("rmdir", &of_path<&spate_rmdir>, "path"_a, "Removes an empty directory.")
      .def("unlink", &of_path<&spate_unlink>, "path"_a, "Removes a file or a symbolic link.")
      .def("symlink", &of_paths<&spate_symlink>, "target"_a, "path"_a, "Makes a symbolic link.")
      .def("link", &of_paths<&spate_link>, "existing"_a, "path"_a, "Gives a file another name.")
      .def("readlink", &readlink, "path"_a, "Where a symbolic link leads.")
      .def("rename", &rename, "source"_a, "target"_a, "flags"_a = 0U,
           "Renames in one step; replaces what `target` names. flags: 1 RENAME_NOREPLACE, 2 RENAME_EXCHANGE.")
      .def("getxattr", &getxattr, "path"_a, "name"_a, py::kw_only(), "follow_symlinks"_a = true,
           "The value of an extended attribute.")
      .def("listxattr", &listxattr, "path"_a, py::kw_only(), "follow_symlinks"_a = true,
           "The names of its extended attributes.")
      .def("setxattr", &setxattr, "path"_a, "name"_a, "value"_a, "flags"_a = 0, "Sets an extended attribute.")
      .def("removexattr", &of_paths<&spate_removexattr>, "path"_a, "name"_a, "Removes an extended attribute.");
}

void bind_attributes(FileSystemClass& fs) {
  fs.def(
        "truncate",
        [](const FileSystem& self, const Path& path, Number<off_t> size) {
          within(self, [&](spate_fs* handle) { return spate_truncate(handle, path.c_str(), size); });
        },
        "path"_a, "size"_a, "Makes a file `size` bytes long.")
      .def(
          "chmod",
          [](const FileSystem& self, const Path& path, mode_t mode) {
            within(self, [&](spate_fs* handle) { return spate_chmod(handle, path.c_str(), mode); });
          },
          "path"_a, "mode"_a, "Changes the mode.")
      .def(
          "chown",
          [](const FileSystem& self, const Path& path, Number<std::int64_t> uid, Number<std::int64_t> gid,
             bool follow) {
            const int flags = follow ? 0 : AT_SYMLINK_NOFOLLOW;
            const uid_t user = owner(uid);
            const gid_t group = owner(gid);
            within(self, [&](spate_fs* handle) { return spate_chown(handle, path.c_str(), user, group, flags); });
          },
          "path"_a, "uid"_a, "gid"_a, py::kw_only(), "follow_symlinks"_a = true,
          "Changes owner and group; -1 leaves one as it is.")
      .def("utime", &utime, "path"_a, py::kw_only(), "ns"_a = py::none(), "follow_symlinks"_a = true,
           "Sets the times of access and change, (atime_ns, mtime_ns); None: now.");
}

}  // namespace

void bind_file_system(py::module_& module) {
  FileSystemClass fs(module, "FileSystem", "A session with a file system of Spate.");
  bind_opening(fs);
  bind_names(fs);
  bind_attributes(fs);
}

}  // namespace spate::python
