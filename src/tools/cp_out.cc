// SPDX-License-Identifier: Apache-2.0
// `spate cp spate:/from to`: copies trees and files out of the file system, several files at once.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/open_files.h"
#include "tools/copy_walk.h"
#include "tools/local_destination.h"
#include "tools/paged_directory.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

/// A directory that the walk is in.
struct LevelOut : CopyLevel {
  explicit LevelOut(Handle directory) : source(directory, true) {}
  PagedDirectory source;
  LocalFolderPtr folder;  // its copy; null: none is made
};

/// Where a file with several names was copied to first. Does not keep its folder open, since a tree may have such files
/// in more folders than a process may open.
struct FirstCopy {
  LocalFolderPtr top;  // null: `path` starts at the working directory
  std::string path;    // from `top`
  std::weak_ptr<const LocalFolder> folder;
};

struct Out : CopyWalk {
  std::unordered_map<Handle, FirstCopy> linked;  // files with several names
  std::vector<LevelOut> levels;
  Out(client::Client& its_client, CopyRun& its_run) : CopyWalk(its_client, its_run, kFilesAtOnce) {}
};

wire::NamePath object_of(const CopySource& source) {
  wire::NamePath where;
  where.start = source.attributes.handle;
  return where;
}

/// Whether a name from a server is a valid entry name. This ensures that nothing is written outside the destination.
bool is_entry_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

/// Whether nothing is to be done. Prints the copy if requested.
bool is_left_out(const Out& out, const CopySource& source) {
  if (out.run.looks()) {
    const LocalPlace& place = source.place;
    struct stat st{};
    const bool taken =
        ::fstatat(place.at(), place.c_str(), &st, place.folder == nullptr ? 0 : AT_SYMLINK_NOFOLLOW) == 0;
    std::optional<CopyState> there;
    if (taken && S_ISREG(st.st_mode))
      there = CopyState{static_cast<std::uint64_t>(st.st_size),
                        WallTime{std::int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec}};
    if (out.run.leaves_alone(taken, there, {source.attributes.size, source.attributes.mtime})) return true;
  }
  return !out.run.begin("spate:" + source.from, source.to);
}

/// Whether one request reads the file. Whether it is removed before the open or before the read makes no difference
/// then, so the server need not count the open.
bool is_read_at_once(const Attributes& a) { return a.size_known && a.size <= kAtOnceBytes; }

job::Task<Result<std::unique_ptr<client::File>>> open_source(Out& out, const CopySource& file) {
  const wire::NamePath object = object_of(file);
  if (is_read_at_once(file.attributes)) {
    std::uint8_t flags = wire::kOpenRead | wire::kOpenUncounted;
    if (client::read_moves_atime(out.client.cluster(), file.attributes)) flags |= wire::kOpenNotesRead;
    auto opened = co_await out.client.open(object, flags);
    if (!opened || is_read_at_once((*opened)->attributes())) co_return opened;
    std::ignore = co_await (*opened)->close();  // it has grown since it was listed
  }
  auto opened = co_await out.client.open(object, wire::kOpenRead);
  co_return opened;
}

job::Task<Result<void>> file_out(Out& out, CopySource file) {
  if (is_left_out(out, file)) co_return Result<void>();
  auto opened = co_await open_source(out, file);
  if (!opened) co_return std::move(opened).error().within("spate:" + file.from);
  auto local = open_local(file);
  Result<void> done;
  if (!local) {
    done = std::move(local).error();
  } else {
    auto moved = co_await pump_out(**opened, local->fd.get(), local->regular, out.run.progress);
    if (!moved) done = std::move(moved).error().within("spate:" + file.from + " to " + file.to);
  }
  auto closed = co_await (*opened)->close();
  if (done && !closed) done = std::move(closed).error().within("spate:" + file.from);
  if (done) done = finish_local(*local, file);
  co_return done;
}

FirstCopy first_copy(const Out& out, const CopySource& source) {
  constexpr std::size_t kMost = 4096;  // a longer path takes more memory than its open folder
  const LocalPlace& place = source.place;
  FirstCopy first{place.folder, place.name, place.folder};
  if (place.folder == nullptr || out.levels.empty()) return first;
  const LevelOut& top = out.levels.front();
  const std::size_t skipped = top.to_bytes + (source.to[top.to_bytes] == '/' ? 1 : 0);
  if (source.to.size() - skipped > kMost) return first;
  first.top = top.folder;
  first.path = source.to.substr(skipped);
  return first;
}

Result<LocalPlace> place_again(const FirstCopy& first) {
  if (first.top == nullptr) return LocalPlace{nullptr, first.path};
  LocalFolderPtr folder = first.folder.lock();
  if (folder == nullptr) return place_below(first.top, first.path);
  return LocalPlace{std::move(folder), first.path.substr(first.path.rfind('/') + 1)};
}

/// Makes a further name of a file that was copied already, or is being copied.
job::Task<Result<void>> link_out(Out& out, const FirstCopy& first, const CopySource& source) {
  auto units = co_await out.slots.acquire(kFilesAtOnce);  // waits until its first name exists
  if (is_left_out(out, source)) co_return Result<void>();
  SPATE_CO_TRY(const LocalPlace place, place_again(first));
  co_return make_link_here(place, source);
}

/// A path for messages that are printed later. A user may nest directories to any depth, so that all whole paths of a
/// tree would need far more memory than the tree.
std::string shown_path(const std::string& path) {
  constexpr std::size_t kMost = 1024;
  return path.size() <= kMost ? path : "..." + path.substr(path.size() - kMost);
}

LocalFolderPtr open_folder(Out& out, UniqueFd made, const CopySource& directory) {
  const auto end = [&out, attributes = directory.attributes, to = shown_path(directory.to)](const LocalFolder* folder) {
    const std::unique_ptr<const LocalFolder> owned(folder);
    const auto finished = finish_folder(*owned, attributes, to);
    if (!finished) out.run.errors.tell(finished.error());
  };
  return LocalFolderPtr(new LocalFolder{std::move(made)}, end);
}

Result<void> enter_directory(Out& out, const CopySource& directory) {
  if (!out.run.recursive)
    return Error::told(Errc::kInvalidArgument, "spate:" + directory.from + " is a directory: use -r");
  LevelOut level(directory.attributes.handle);
  if (out.run.begin("spate:" + directory.from, directory.to)) {
    SPATE_TRY(UniqueFd made, make_directory_here(directory));
    level.folder = open_folder(out, std::move(made), directory);
  }
  out.enter(level, directory.from, directory.to);
  out.levels.push_back(std::move(level));
  return {};
}

/// The next entry of the directory that the walk is in.
job::Task<Result<CopySource>> next_source(Out& out, LevelOut& level) {
  const wire::DirectoryEntry entry = level.source.take();
  if (!is_entry_name(entry.name))
    co_return Error::told(Errc::kProtocol,
                          "spate:" + out.from + ": a server gave a name that cannot stand in a directory");
  CopySource source{join_path(out.from, entry.name), join_path(out.to, entry.name), {level.folder, entry.name}, {}};
  if (level.folder == nullptr) source.place.name = source.to;
  if (entry.attributes) {
    source.attributes = *entry.attributes;
    co_return source;
  }
  const wire::NamePath there = name_in(level.source.handle(), entry.name);
  auto object = co_await out.client.stat(there);
  if (!object) co_return std::move(object).error().within("spate:" + source.from);
  source.attributes = object->attributes;
  co_return source;
}

job::Task<Result<void>> begin_file_out(Out& out, CopySource source) {
  if (source.attributes.link_count > 1) {
    const auto [known, fresh] = out.linked.try_emplace(source.attributes.handle, first_copy(out, source));
    if (!fresh) {
      const FirstCopy first = known->second;
      auto made = co_await link_out(out, first, source);
      co_return made;
    }
  }
  const std::size_t weight = weight_of(source.attributes.size);
  auto copy = file_out(out, std::move(source));
  co_await out.begin_file(weight, std::move(copy));
  co_return Result<void>();
}

job::Task<Result<void>> object_out(Out& out, CopySource source) {
  Result<void> copied;
  const FileType type = source.attributes.type;
  if (type == FileType::kDirectory) {
    copied = enter_directory(out, source);
  } else if (type == FileType::kSymlink) {
    const wire::NamePath link = object_of(source);
    auto object = co_await out.client.stat(link);
    if (!object) co_return std::move(object).error().within("spate:" + source.from);
    if (!is_left_out(out, source)) copied = make_symlink_here(source, object->target);
  } else if (type == FileType::kRegular) {
    copied = co_await begin_file_out(out, std::move(source));
  } else {
    copied = Error::told(Errc::kNotSupported, "spate:" + source.from + ": neither file, directory nor link");
  }
  co_return copied;
}

/// Uses a stack of its own, since a user may nest directories to any depth.
job::Task<void> tree_out(Out& out, CopySource source) {
  auto copy = object_out(out, std::move(source));
  co_await out.attempt(std::move(copy));
  while (!out.levels.empty()) {
    LevelOut& level = out.levels.back();
    out.return_to(level);
    if (out.run.errors.ended() || (!level.source.has_next() && level.source.all_listed())) {
      out.levels.pop_back();
    } else if (!level.source.has_next()) {
      co_await out.list_more(level.source);
    } else {
      auto below = co_await next_source(out, level);
      if (!below) {
        out.run.errors.tell(below.error());
      } else {
        copy = object_out(out, *std::move(below));
        co_await out.attempt(std::move(copy));  // may enter a directory
      }
    }
  }
}

/// The place that the user named, or a name in the folder that the user named.
Result<LocalPlace> place_of(const CopyParams& params) {
  const auto [folder, name] = split_path(params.to);
  if (!params.inside || name.empty() || name == ".") return LocalPlace{nullptr, params.to};
  UniqueFd opened(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return errno_error(errno, folder);
  return LocalPlace{LocalFolderPtr(new LocalFolder{std::move(opened)}), name};
}

}  // namespace

job::Task<void> copy_out(client::Client& client, const CopyList& list, CopyRun& run) {
  std::ignore = raise_open_files_limit();  // each level of a tree has an open folder
  Out out(client, run);
  for (const CopyParams& params : list) {
    if (run.errors.ended()) break;
    auto object = co_await client.stat(client::path_from_root(params.from, !run.recursive));
    if (!object) {
      run.errors.tell(std::move(object).error().within("spate:" + params.from));
      continue;
    }
    auto place = place_of(params);
    if (!place) {
      run.errors.tell(place.error());
      continue;
    }
    CopySource source{params.from, params.to, *std::move(place), object->attributes};
    co_await tree_out(out, std::move(source));
  }
  co_await out.gate.close();
  out.linked.clear();  // its places hold folders
}

}  // namespace spate::tools
