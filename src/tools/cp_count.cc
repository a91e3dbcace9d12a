// SPDX-License-Identifier: Apache-2.0
// Computes how much a copy is going to move, for its progress line. Runs beside the copy.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <set>

#include "tools/copy.h"
#include "tools/paged_directory.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

/// One walk. A file with several names counts once, since it is copied once.
struct Count {
  Progress& progress;
  job::StopToken stop;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;

  void add(std::uint64_t size, std::uint64_t allocated) {
    ++progress.total_files;
    progress.total_bytes += std::min(size, allocated);
  }
};

void count_entry(Count& count, const std::string& path, bool follow, std::vector<std::string>& folders) {
  struct stat st{};
  if (::fstatat(AT_FDCWD, path.c_str(), &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) return;
  if (S_ISDIR(st.st_mode)) folders.push_back(path);
  if (!S_ISREG(st.st_mode)) return;
  if (st.st_nlink > 1 && !count.seen.emplace(st.st_dev, st.st_ino).second) return;
  // The allocation is only a hint: a small or compressed file is read as a whole.
  const auto size = static_cast<std::uint64_t>(st.st_size);
  const auto allocated = static_cast<std::uint64_t>(st.st_blocks) * 512;
  count.add(size, size <= (1U << 20U) ? size : allocated);
}

void count_entry(Count& count, const std::string& path, const Attributes& a,
                 std::vector<std::pair<std::string, Handle>>& folders) {
  if (a.type == FileType::kDirectory) folders.emplace_back(path, a.handle);
  if (a.type != FileType::kRegular) return;
  if (a.link_count > 1 && !count.seen.emplace(0, a.handle.value).second) return;
  count.add(a.size, a.size_known ? a.allocated_bytes : a.size);
}

}  // namespace

job::Task<void> count_local(job::Executor& executor, std::string path, bool follow, Progress& progress,
                            job::StopToken stop) {
  constexpr unsigned kAtOnce = 64;
  Count count{progress, stop, {}};
  std::vector<std::string> folders;
  count_entry(count, path, follow, folders);
  unsigned turn = 0;
  while (!folders.empty() && !stop.stopped()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    DIR* const directory = ::opendir(folder.c_str());
    if (directory == nullptr) continue;
    for (const dirent* entry = ::readdir(directory); entry != nullptr; entry = ::readdir(directory)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") count_entry(count, join_path(folder, name), false, folders);
      if (++turn % kAtOnce == 0) co_await executor.yield();  // lets the copy go on
    }
    ::closedir(directory);
  }
}

job::Task<void> count_remote(client::Client& client, std::string path, bool follow, Progress& progress,
                             job::StopToken stop) {
  Count count{progress, stop, {}};
  std::vector<std::pair<std::string, Handle>> folders;
  auto object = co_await client.lookup(client::path_from_root(path, follow));
  if (object) count_entry(count, path, object->attributes, folders);
  while (!folders.empty() && !stop.stopped()) {
    PagedDirectory listing(folders.back().second, true);
    folders.pop_back();
    while (!listing.all_listed() && !stop.stopped()) {
      std::ignore = co_await listing.list_more(client);  // after an error it has no further pages
      while (listing.has_next()) {
        const wire::DirectoryEntry entry = listing.take();
        if (entry.attributes) count_entry(count, entry.name, *entry.attributes, folders);
      }
    }
  }
}

}  // namespace spate::tools
