// SPDX-License-Identifier: Apache-2.0
#include "tests/cluster/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/meta/store/keys.h"
#include "server/meta/store/records.h"
#include "tests/cluster/io_service_access.h"

namespace spate::cluster {
namespace {

constexpr Duration kLongestSettling = std::chrono::minutes(10);
constexpr std::size_t kMostBytes = 256 * 1024;

/// Runs `task` on the client. False: it does not end within ten minutes.
bool run(Scene& scene, ClientProcess& client, job::Task<void> task) {
  bool done = false;
  const auto note_end = [](job::Task<void> inner, bool& ended) -> job::Task<void> {
    co_await std::move(inner);
    ended = true;
  };
  job::spawn(client.gate(), note_end(std::move(task), done));
  const MonoTime limit = scene.world.now() + kLongestSettling;
  while (!done && scene.world.turn(limit)) {
  }
  return done;
}

/// The unfinished work in the meta server's records; empty: none.
std::string unfinished(const trove::SimKeyvalDisk& disk) {
  std::map<char, int> counts;
  for (const trove::BatchWrite& record : disk.contents()) {
    const auto kind = static_cast<char>(std::to_integer<int>(record.key.front()));
    switch (static_cast<meta::KeyKind>(kind)) {
      case meta::KeyKind::kOpen:
      case meta::KeyKind::kRemoval:
      case meta::KeyKind::kTruncate:
      case meta::KeyKind::kUnsettled: ++counts[kind]; break;
      case meta::KeyKind::kSession: {
        const auto session = meta::decode_record<meta::SessionRecord>(*record.value);
        if (session && (session->state == meta::SessionState::kOpen || session->released_epoch != session->epoch)) {
          ++counts[kind];
        }
        break;
      }
      default: break;
    }
  }
  std::string text;
  for (const auto& [kind, count] : counts) text += fmt::format(" {} of '{}'", count, kind);
  return text;
}

/// A client's walk through the whole file system.
class Walk {
 public:
  Walk(Scene& scene, ClientProcess& client) : scene_(scene), client_(client.client()) {}

  job::Task<void> run() { co_await enter(kRootHandle, ""); }
  const StoredTree& tree() const { return tree_; }

 private:
  job::Task<void> enter(Handle directory, std::string path) {
    wire::ReaddirRequest request;
    request.handle = directory;
    request.max_entries = 3;  // so that a listing has several pages
    std::vector<wire::DirectoryEntry> entries;
    for (;;) {
      auto page = co_await client_.readdir(request);
      if (!page) co_return scene_.fail(fmt::format("readdir of {}: {}", path, name(page.code())));
      for (auto& entry : page->entries) entries.push_back(std::move(entry));
      if (page->end) break;
      request.cookie = entries.back().cookie;
    }
    co_await look(directory, path);
    for (const wire::DirectoryEntry& entry : entries) {
      const bool fresh = tree_.entries.emplace(std::pair(directory.value, entry.name), entry.handle.value).second;
      if (!fresh) scene_.fail(fmt::format("{}/{} is listed twice", path, entry.name));
      if (entry.type == FileType::kDirectory) {
        co_await enter(entry.handle, path + "/" + entry.name);
      } else {
        co_await look(entry.handle, path + "/" + entry.name);
      }
    }
  }

  job::Task<void> look(Handle handle, std::string path) {
    if (tree_.nodes.contains(handle.value)) co_return;
    client::NamePath where;
    where.start = handle;
    auto found = co_await client_.stat(where);
    if (!found) co_return scene_.fail(fmt::format("stat of {}: {}", path, name(found.code())));
    const Attributes& a = found->attributes;
    StoredNode& node = tree_.nodes[handle.value];
    node.type = a.type;
    node.mode = a.mode;
    node.links = a.link_count;
    node.entries = a.type == FileType::kDirectory ? a.size : 0;
    node.target = found->target;
    if (a.type != FileType::kSymlink) co_await look_at_xattrs(where, node);
    if (a.type != FileType::kRegular) co_return;
    if (!a.size_known) scene_.fail(path + ": nobody writes it, but its size is not known");
    co_await read_file(where, path, a.size);
  }

  job::Task<void> look_at_xattrs(client::NamePath where, StoredNode& node) {
    auto names = co_await client_.listxattr(where);
    if (!names) co_return scene_.fail(fmt::format("listxattr: {}", name(names.code())));
    for (const std::string& xattr : *names) {
      auto value = co_await client_.getxattr(where, xattr);
      if (!value) co_return scene_.fail(fmt::format("getxattr {}: {}", xattr, name(value.code())));
      node.xattrs[xattr] = std::string(as_text(*value));
    }
  }

  job::Task<void> read_log(client::File& log, std::string path) {
    Bytes memory(2 * kMostBytes);
    const std::uint64_t id = scene_.appends.begin_read();
    auto got = co_await log.read(0, memory);
    if (!got) co_return scene_.fail(fmt::format("read of {}: {}", path, name(got.code())));
    const std::string wrong = scene_.appends.end_read(log.handle().value, id, ByteView(memory).first(*got));
    if (!wrong.empty()) scene_.fail(fmt::format("at the end, {}: {}", path, wrong));
  }

  /// All lock holders have ended, so a new client must get each lock.
  job::Task<void> lock_file(Handle handle) {
    for (const LockKind kind : {LockKind::kProcess, LockKind::kFlock}) {
      wire::LockSpec lock;
      lock.handle = handle;
      lock.kind = kind;
      lock.owner = 1;
      lock.mode = LockMode::kExclusive;
      auto locked = co_await client_.cluster().locks().set(lock, false);
      if (!locked)
        co_return scene_.fail(
            fmt::format("at the end, file {} cannot be locked: {}", handle.value, name(locked.code())));
      std::ignore = co_await client_.cluster().locks().release(handle, {kind, 1});
    }
  }

  job::Task<void> read_file(client::NamePath where, std::string path, std::uint64_t size) {
    auto file = co_await client_.open(where, wire::kOpenRead);
    if (!file) co_return scene_.fail(fmt::format("open of {}: {}", path, name(file.code())));
    const std::uint64_t handle = where.start.value;
    co_await lock_file(where.start);
    if (scene_.appends.knows(handle) || scene_.scratch.contains(handle)) {
      if (scene_.appends.knows(handle)) co_await read_log(**file, path);
      std::ignore = co_await (*file)->close();
      co_return;
    }
    scene_.data.know(handle, (*file)->layout());
    const std::vector<Extent> all{{0, kMostBytes}};
    const ReadId id = scene_.data.begin_read(handle, all);
    const ReadId stat = scene_.data.begin_read(handle, {});
    Bytes memory(kMostBytes);
    auto got = co_await (*file)->read(0, memory);
    if (!got) co_return scene_.fail(fmt::format("read of {}: {}", path, name(got.code())));
    memory.resize(*got);
    std::string wrong = scene_.data.end_read(id, memory);
    if (wrong.empty()) wrong = scene_.data.end_stat(stat, size);
    if (wrong.empty() && *got != size && !scene_.data.size_in_doubt(handle)) {
      wrong = fmt::format("its size is {}, but {} bytes can be read", size, *got);
    }
    if (!wrong.empty()) scene_.fail(fmt::format("at the end, {} (file {}): {}", path, handle, wrong));
    std::ignore = co_await (*file)->close();
  }

  Scene& scene_;
  client::Client& client_;
  StoredTree tree_;
};

void check_stores(Scene& scene, const StoredTree& walked, const std::set<std::uint64_t>& forgotten) {
  const auto stored = read_store(scene.world.disks(kMetaServer).records);
  if (!stored) return scene.fail("the meta server's records cannot be read");
  const std::string inconsistency = stored->inconsistency();
  if (!inconsistency.empty()) return scene.fail("the meta server's records contradict each other: " + inconsistency);
  if (!stored->unnamed.empty())
    return scene.fail(fmt::format("file {} has no name and is still there", stored->unnamed.front()));
  if (stored->nodes.size() != walked.nodes.size() || stored->entries != walked.entries) {
    return scene.fail("the meta server holds what no path leads to");
  }
  for (const ServerId id : scene.world.servers()) {
    for (const auto& disk : scene.world.disks(id).targets) {
      for (const DatafileId& datafile : disk->list({}, 1'000'000)) {
        const std::uint64_t handle = datafile.handle.value;
        if (stored->nodes.contains(handle) || forgotten.contains(handle)) continue;
        return scene.fail(fmt::format("server {} holds a datafile of file {}, which is no more", id.value, handle));
      }
    }
  }
}

}  // namespace

void wait_until_settled(Scene& scene) {
  const MonoTime limit = scene.world.now() + kLongestSettling;
  std::string left;
  while (scene.world.now() < limit) {
    scene.world.run_for(std::chrono::seconds(1));
    left = unfinished(scene.world.disks(kMetaServer).records);
    for (const ServerId id : scene.world.servers()) {
      ServerProcess* const process = scene.world.server(id);
      if (process == nullptr || process->io() == nullptr ||
          io::IoServiceTestAccess::has_redone_removals(*process->io()))
        continue;
      left += fmt::format(" removals of before the crash of server {}", id.value);
    }
    if (left.empty()) return;
  }
  scene.fail("the servers have not finished their work:" + left);
}

void verify(Scene& scene, const std::set<std::uint64_t>& forgotten) {
  ClientProcess& client = scene.world.start_client();
  Walk walk(scene, client);
  if (!run(scene, client, walk.run())) return scene.fail("the walk at the end hangs");
  if (!scene.failure.empty()) return;
  if (!scene.history.is(walk.tree())) return scene.fail("at the end: " + scene.history.explain());
  check_stores(scene, walk.tree(), forgotten);
}

}  // namespace spate::cluster
