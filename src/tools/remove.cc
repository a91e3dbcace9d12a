// SPDX-License-Identifier: Apache-2.0
#include "tools/remove.h"

#include <memory>
#include <utility>
#include <vector>

#include "job/event.h"
#include "job/gate.h"
#include "job/semaphore.h"
#include "tools/destination.h"
#include "tools/paged_directory.h"

namespace spate::tools {
namespace {

/// Removals in flight. Several of them go to the meta server in one request.
constexpr std::size_t kAtOnce = 128;

/// A directory that is being emptied. It is removed when its last holder has released it: the walk, an entry that is
/// being removed, or a directory in it.
struct Folder {
  std::shared_ptr<const Folder> above;  // null: the one that is removed last
  wire::NamePath name;
  Handle handle;
};
using FolderPtr = std::shared_ptr<const Folder>;

/// State that the coroutines of one run share. Lives on the frame of remove_tree().
struct Run {
  client::Client& client;
  job::Gate gate;
  job::Semaphore slots;
  job::Event ended;  // the last directory is gone, or it stays because of an error
  Result<void> first;
  std::vector<std::unique_ptr<const Folder>> emptied;
  bool removing = false;  // somebody works on `emptied`

  explicit Run(client::Client& c)
      : client(c),
        gate(c.cluster().executor()),
        slots(c.cluster().executor(), kAtOnce),
        ended(c.cluster().executor()) {}
  void tell(Result<void> removed) {
    if (!removed && removed.code() != Errc::kNotFound && first) first = std::move(removed);
  }
};

job::Task<void> remove_file(Run& run, FolderPtr folder, std::string name, job::Semaphore::Units slot) {
  wire::NamePath where = name_in(folder->handle, std::move(name));
  auto removed = co_await run.client.unlink(std::move(where));
  slot = {};
  run.tell(std::move(removed));
}

job::Task<void> remove_folder(Run& run, std::unique_ptr<const Folder> folder) {
  if (run.first) {
    wire::NamePath where = folder->name;
    auto removed = co_await run.client.rmdir(std::move(where));
    run.tell(std::move(removed));
  }
  if (folder->above == nullptr) run.ended.set();
}

/// Removing a directory releases the one above, which may then be empty, and so on. This is a loop and not a recursion,
/// since a user may nest directories to any depth.
void remove_emptied(Run& run) {
  if (std::exchange(run.removing, true)) return;
  while (!run.emptied.empty()) {
    auto folder = std::move(run.emptied.back());
    run.emptied.pop_back();
    job::spawn(run.gate, remove_folder(run, std::move(folder)));
  }
  run.removing = false;
}

FolderPtr make_folder(Run& run, Folder folder) {
  const auto end = [&run](const Folder* emptied) {
    run.emptied.emplace_back(emptied);
    remove_emptied(run);
  };
  return FolderPtr(new Folder(std::move(folder)), end);
}

/// A directory that the walk has entered.
struct EnteredFolder {
  explicit EnteredFolder(FolderPtr its_folder) : folder(std::move(its_folder)), entries(folder->handle, false) {}
  FolderPtr folder;
  PagedDirectory entries;
};

/// Removes everything below `root`, depth first. Uses a stack of its own instead of recursion.
job::Task<void> empty(Run& run, FolderPtr root) {
  std::vector<EnteredFolder> levels;
  levels.emplace_back(std::move(root));
  while (!levels.empty() && run.first) {
    EnteredFolder& level = levels.back();
    if (!level.entries.has_next() && level.entries.all_listed()) {
      levels.pop_back();
      continue;
    }
    if (!level.entries.has_next()) {
      auto page = co_await level.entries.list_more(run.client);
      if (page) continue;
      run.tell(std::move(page));
      levels.pop_back();
      continue;
    }
    wire::DirectoryEntry entry = level.entries.take();
    const FolderPtr folder = level.folder;
    if (entry.type == FileType::kDirectory) {
      Folder below{folder, name_in(folder->handle, std::move(entry.name)), entry.handle};
      levels.emplace_back(make_folder(run, std::move(below)));
    } else {
      std::string name = std::move(entry.name);
      auto slot = co_await run.slots.acquire(1);
      job::spawn(run.gate, remove_file(run, folder, std::move(name), *std::move(slot)));
    }
  }
}

}  // namespace

job::Task<Result<void>> remove_tree(client::Client& client, Handle parent, std::string name, Handle directory) {
  Run run(client);
  Folder root{nullptr, name_in(parent, std::move(name)), directory};
  FolderPtr made = make_folder(run, std::move(root));
  co_await empty(run, std::move(made));
  std::ignore = co_await run.ended.wait();
  co_await run.gate.close();
  co_return std::move(run.first);
}

}  // namespace spate::tools
