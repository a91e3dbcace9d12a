// SPDX-License-Identifier: Apache-2.0
#include "tools/remove.h"

#include <memory>
#include <utility>

#include "job/event.h"
#include "job/gate.h"
#include "job/semaphore.h"

namespace spate::tools {
namespace {

/// Removals in flight. Several of them go to the meta server in one request.
constexpr std::size_t kAtOnce = 128;

/// State that the coroutines of one run share. Lives on the frame of remove_tree().
struct Run {
  client::Client& client;
  job::Gate gate;
  job::Semaphore slots;
  job::Event ended;  // the last directory is gone, or it stays because of an error
  Result<void> first;

  explicit Run(client::Client& c)
      : client(c),
        gate(c.cluster().executor()),
        slots(c.cluster().executor(), kAtOnce),
        ended(c.cluster().executor()) {}
  void tell(Result<void> removed) {
    if (!removed && removed.code() != Errc::kNotFound && first) first = std::move(removed);
  }
};

/// A directory that is being emptied. It is removed when its last holder has released it: the walk, an entry that is
/// being removed, or a directory in it.
struct Folder {
  std::shared_ptr<const Folder> above;  // null: the one that is removed last
  wire::NamePath name;
  Handle handle;
};
using FolderPtr = std::shared_ptr<const Folder>;

wire::NamePath name_in(Handle directory, std::string name) {
  wire::NamePath where;
  where.start = directory;
  where.path = std::move(name);
  return where;
}

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

FolderPtr make_folder(Run& run, Folder folder) {
  const auto end = [&run](const Folder* emptied) {
    job::spawn(run.gate, remove_folder(run, std::unique_ptr<const Folder>(emptied)));
  };
  return FolderPtr(new Folder(std::move(folder)), end);
}

job::Task<void> empty(Run& run, FolderPtr folder) {
  wire::ReaddirRequest request;
  request.handle = folder->handle;
  for (bool end = false; !end && run.first;) {
    auto page = co_await run.client.readdir(request);
    if (!page) {
      run.tell(std::move(page).error());
      co_return;
    }
    for (wire::DirectoryEntry& entry : page->entries) {
      if (!run.first) co_return;
      request.cookie = entry.cookie;
      if (entry.type == FileType::kDirectory) {
        Folder below{folder, name_in(folder->handle, std::move(entry.name)), entry.handle};
        FolderPtr made = make_folder(run, std::move(below));
        co_await empty(run, std::move(made));
      } else {
        auto slot = co_await run.slots.acquire(1);
        job::spawn(run.gate, remove_file(run, folder, std::move(entry.name), *std::move(slot)));
      }
    }
    end = page->end || page->entries.empty();
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
