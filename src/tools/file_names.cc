// SPDX-License-Identifier: Apache-2.0
#include "tools/file_names.h"

#include <deque>

namespace spate::tools {
namespace {

struct FoundDirectory {
  Handle handle;
  std::string path;  // "" for the root
};

struct NameSearch {
  std::set<Handle> wanted;
  std::map<Handle, std::string> found;
  std::deque<FoundDirectory> directories;
  std::size_t names = 0;
  bool over() const { return wanted.empty() || names >= FileNames::kMostNames; }
};

void look_at_page(NameSearch& search, const FoundDirectory& directory, const wire::ReaddirReply& page) {
  for (const auto& entry : page.entries) {
    ++search.names;
    const std::string path = directory.path + "/" + entry.name;
    if (entry.type == FileType::kDirectory) search.directories.push_back({entry.handle, path});
    if (search.wanted.erase(entry.handle) != 0) search.found[entry.handle] = path;
  }
}

/// Leaves out directories that this user may not list.
job::Task<void> list_names(client::Client& client, NameSearch& search, FoundDirectory directory) {
  wire::ReaddirRequest request;
  request.handle = directory.handle;
  while (!search.over()) {
    auto page = co_await client.readdir(request);
    if (!page) co_return;
    look_at_page(search, directory, *page);
    if (page->end || page->entries.empty()) co_return;
    request.cookie = page->entries.back().cookie;
  }
}

job::Task<void> walk_names(client::Client& client, NameSearch& search) {
  const std::string root_path = "/";
  auto root = co_await client.lookup(client::path_from_root(root_path));
  if (!root) co_return;
  search.directories.push_back({root->attributes.handle, ""});
  while (!search.over() && !search.directories.empty()) {
    FoundDirectory next = std::move(search.directories.front());
    search.directories.pop_front();
    co_await list_names(client, search, std::move(next));
  }
}

}  // namespace

void FileNames::name(std::vector<LoadRow>& rows, std::size_t most) {
  const MonoTime now = process_.clock().now();
  if (now - begun_ > kKept) {
    known_.clear();
    begun_ = now;
  }
  std::set<Handle> wanted;
  for (std::size_t i = 0; i < std::min(most, rows.size()); ++i) {
    if (!known_.contains(rows[i].file)) wanted.insert(rows[i].file);
  }
  if (!wanted.empty()) search(std::move(wanted));
  for (LoadRow& row : rows) {
    const auto found = known_.find(row.file);
    if (found != known_.end()) row.path = found->second;
  }
}

void FileNames::search(std::set<Handle> wanted) {
  for (const Handle handle : wanted) known_[handle].clear();
  NameSearch search{std::move(wanted), {}, {}, 0};
  process_.run([&](client::Client& client) { return walk_names(client, search); });
  for (auto& [handle, path] : search.found) known_[handle] = std::move(path);
}

}  // namespace spate::tools
