// SPDX-License-Identifier: Apache-2.0
// `spate cp spate:/from to`: trees and files out of the file system, several files at once.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <unordered_map>

#include "base/unique_fd.h"
#include "job/semaphore.h"
#include "tools/copy.h"
#include "tools/name_space.h"

namespace spate::tools {
namespace {

/// One run: what its coroutines share. Lives on the frame of copy_out().
struct Out {
  client::Client& client;
  const bool recursive;
  job::Gate gate;
  job::Semaphore slots;
  Progress& progress;
  Result<void> first;                               // the first failure
  std::unordered_map<Handle, std::string> linked;  // files of several names: the local name that each has first
  Out(client::Client& c, bool with_trees, Progress& p)
      : client(c), recursive(with_trees), gate(c.cluster().executor()), slots(c.cluster().executor(), kFilesAtOnce), progress(p) {}
  void failed(Error error, const std::string& name) {
    if (first) first = std::move(error).within(name);
  }
};

/// Something in the file system and the name it gets here.
struct Source {
  std::string from;
  std::string to;
  Attributes attributes;
};

timespec spec(WallTime t) { return {static_cast<time_t>(t.ns / 1'000'000'000), static_cast<long>(t.ns % 1'000'000'000)}; }

/// What a server says is a name in a directory is one: nothing is written beside the destination.
bool is_entry_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

/// `make` makes something at `to`, where no name may be yet: what is there and no directory goes first.
template <typename Make>
Result<void> make_anew(const std::string& to, Make make) {
  if (make() == 0) return {};
  if (errno != EEXIST) return errno_error(errno, "make " + to);
  if (::unlink(to.c_str()) != 0) return errno_error(errno, "replace " + to);
  return make() == 0 ? Result<void>() : errno_error(errno, "make " + to);
}

job::Task<Result<void>> file_out(Out& out, const Source& file) {
  const UniqueFd fd(::open(file.to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) co_return errno_error(errno, "create " + file.to);
  SPATE_CO_TRY(auto opened, co_await out.client.open(client::path_from_root(file.from, false), wire::kOpenRead));
  auto moved = co_await pump_out(*opened, fd.get(), true, out.progress);
  auto closed = co_await opened->close();
  if (!moved) co_return std::move(moved).error();
  if (!closed) co_return std::move(closed).error();
  const Attributes& a = file.attributes;
  if (::geteuid() == 0 && ::fchown(fd.get(), a.uid, a.gid) != 0) co_return errno_error(errno, "chown " + file.to);
  const timespec times[2] = {spec(a.atime), spec(a.mtime)};
  if (::fchmod(fd.get(), a.mode) != 0 || ::futimens(fd.get(), times) != 0) co_return errno_error(errno, "attributes of " + file.to);
  co_return Result<void>();
}

job::Task<void> file_out_in_slot(Out& out, Source file) {
  auto units = co_await out.slots.acquire(1);
  auto copied = co_await file_out(out, file);
  if (!copied) out.failed(std::move(copied).error(), "spate:" + file.from);
  ++out.progress.files;
}

Result<void> symlink_out(const Source& link, const std::string& target) {
  SPATE_TRY(std::ignore, make_anew(link.to, [&] { return ::symlink(target.c_str(), link.to.c_str()); }));
  const timespec times[2] = {spec(link.attributes.atime), spec(link.attributes.mtime)};
  if (::utimensat(AT_FDCWD, link.to.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) return errno_error(errno, "times of " + link.to);
  return {};
}

/// A further name of a file that is here already, or on its way.
job::Task<Result<void>> link_out(Out& out, const std::string& first, const std::string& to) {
  auto units = co_await out.slots.acquire(kFilesAtOnce);  // its first name exists by now
  co_return make_anew(to, [&] { return ::link(first.c_str(), to.c_str()); });
}

job::Task<Result<void>> tree_out(Out& out, Source source);

job::Task<Result<void>> entries_out(Out& out, const Source& directory) {
  wire::ReaddirRequest request;
  request.handle = directory.attributes.handle;
  request.attributes = true;
  for (bool end = false; !end;) {
    SPATE_CO_TRY(auto page, co_await out.client.readdir(request));
    for (const wire::DirectoryEntry& entry : page.entries) {
      request.cookie = entry.cookie;
      if (!is_entry_name(entry.name)) co_return Error(Errc::kProtocol, "a server gave a name that cannot stand in a directory");
      Source source{join_path(directory.from, entry.name), join_path(directory.to, entry.name), {}};
      if (entry.attributes) {
        source.attributes = *entry.attributes;
      } else {
        SPATE_CO_TRY(auto object, co_await out.client.stat(client::path_from_root(source.from, false)));
        source.attributes = object.attributes;
      }
      SPATE_CO_TRY(std::ignore, co_await tree_out(out, std::move(source)));
    }
    end = page.end || page.entries.empty();
  }
  co_return Result<void>();
}

job::Task<Result<void>> directory_out(Out& out, const Source& directory) {
  const std::string& to = directory.to;
  const Attributes& a = directory.attributes;
  if (!out.recursive) co_return Error(Errc::kInvalidArgument, "spate:" + directory.from + " is a directory: use -r");
  if (::mkdir(to.c_str(), 0700) != 0 && errno != EEXIST) co_return errno_error(errno, "make " + to);
  SPATE_CO_TRY(std::ignore, co_await entries_out(out, directory));
  auto units = co_await out.slots.acquire(kFilesAtOnce);  // nothing is put into it any more
  const timespec times[2] = {spec(a.atime), spec(a.mtime)};
  if (::geteuid() == 0 && ::chown(to.c_str(), a.uid, a.gid) != 0) co_return errno_error(errno, "chown " + to);
  if (::chmod(to.c_str(), a.mode) != 0 || ::utimensat(AT_FDCWD, to.c_str(), times, 0) != 0) co_return errno_error(errno, "attributes of " + to);
  co_return Result<void>();
}

job::Task<Result<void>> tree_out(Out& out, Source source) {
  if (!out.first) co_return out.first;
  const Attributes& a = source.attributes;
  if (a.type == FileType::kDirectory) {
    auto copied = co_await directory_out(out, source);
    co_return copied;
  }
  if (a.type == FileType::kSymlink) {
    SPATE_CO_TRY(const auto object, co_await out.client.stat(client::path_from_root(source.from, false)));
    co_return symlink_out(source, object.target);
  }
  if (a.type != FileType::kRegular) co_return Error(Errc::kNotSupported, "spate:" + source.from + ": neither file, directory nor link");
  if (a.link_count > 1) {
    const auto [known, fresh] = out.linked.try_emplace(a.handle, source.to);
    if (!fresh) {
      const std::string first = known->second;
      auto made = co_await link_out(out, first, source.to);
      co_return made;
    }
  }
  {
    auto room = co_await out.slots.acquire(1);  // bounds how many are spawned, too
  }
  job::spawn(out.gate, file_out_in_slot(out, std::move(source)));
  co_return Result<void>();
}

}  // namespace

job::Task<Result<void>> copy_out(client::Client& client, CopyWish wish, Progress& progress) {
  SPATE_CO_TRY(auto object, co_await client.stat(client::path_from_root(wish.from, false)));
  Out out(client, wish.recursive, progress);
  auto walked = co_await tree_out(out, Source{wish.from, wish.to, object.attributes});
  co_await out.gate.close();
  co_return walked ? out.first : walked;
}

}  // namespace spate::tools
