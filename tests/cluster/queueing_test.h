// SPDX-License-Identifier: Apache-2.0
// QueueingTest: a client that answers changes itself, and one that does not.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/expect.h"
#include "client/session/gather_memory.h"
#include "client/session/handover_state.h"
#include "client/session/queue_memory.h"
#include "tests/cluster/calls.h"
#include "tests/cluster/memory_copy.h"

namespace spate::cluster {

inline std::string text(const Attributes& a) {
  return fmt::format(
      "mode={:o} uid={} gid={} links={} size={} allocated={} atime={} mtime={} ctime={} btime={} version={} "
      "known={} sum={}",
      a.mode, a.uid, a.gid, a.link_count, a.size, a.allocated_bytes, a.atime.ns, a.mtime.ns, a.ctime.ns, a.btime.ns,
      a.version, a.size_known, a.change_sum);
}

/// Client A has new directories, of which D is one, and queues what it makes there. Client B asks the servers.
class QueueingTest : public ::testing::Test {
 protected:
  QueueingTest() : world_({}) {
    world_.watch().on_arrival([this](const WatchedRequest& request) { ++asked_[request.op]; });
    a_ = &start(memory_.get());
    b_ = &start(-1);
    EXPECT_ERRC(stat(*a_, "d"), Errc::kNotFound);  // brings the first lease
    d_ = new_directory("d");
  }

  ClientProcess& start(int memory, client::HandoverState* handover = nullptr, int gather = -1) {
    client::Options options = small_client_options({}, {}, {});
    options.keep_attributes = true;
    options.handover = handover;
    if (memory >= 0) {
      auto queue = client::QueueMemory::open(memory, std::size_t{1} << 20U);
      SPATE_CHECK(queue.has_value());
      queues_.push_back(*std::move(queue));
      options.queue = queues_.back().get();
      if (gather < 0) gather = ::memfd_create("gather", MFD_CLOEXEC);
      gathers_.push_back(client::GatherMemory::open(gather, 8).value());
      options.gather = gathers_.back().get();
    }
    return world_.start_client(std::move(options));
  }
  template <typename T>
  T run(ClientProcess& process, job::Task<T> task) {
    return call(world_, process, std::move(task));
  }
  Handle new_directory(const std::string& path) {
    const auto made = run(*a_, a_->client().mkdir(client::path_from_root(path), {0755, {}, {}, {}, {}}));
    EXPECT_OK(made);
    world_.run_for(std::chrono::milliseconds(20));  // handles come
    return made ? made->handle : Handle();
  }
  client::QueuedChanges& queued() { return a_->client().cluster().queued(); }
  std::optional<Result<Attributes>> make(Handle directory, const std::string& name, FileType type = FileType::kRegular,
                                         std::uint8_t rights = 0) {
    wire::NamePath where;
    where.start = directory;
    where.path = name;
    wire::NewAttributes attributes;
    attributes.mode = 0644;
    const std::string target = type == FileType::kSymlink ? "to " + name : "";
    return queued().make({where, type, attributes, target, rights}, 0);
  }
  /// Makes it without asking a server.
  Handle made(Handle directory, const std::string& name, FileType type = FileType::kRegular, std::uint8_t rights = 0) {
    const auto attributes = make(directory, name, type, rights);
    EXPECT_TRUE(attributes.has_value()) << name << " was not made locally";
    return attributes ? attributes->value().handle : Handle();
  }
  Result<Attributes> stat(ClientProcess& process, const std::string& path) {
    SPATE_TRY(auto found, run(process, process.client().stat(client::path_from_root(path))));
    return found.attributes;
  }
  std::vector<std::string> list(ClientProcess& process, Handle directory) {
    wire::ReaddirRequest request;
    request.handle = directory;
    std::vector<std::string> names;
    const auto page = run(process, process.client().readdir(request));
    EXPECT_OK(page);
    if (!page) return names;
    for (const wire::DirectoryEntry& entry : page->entries) names.push_back(entry.name);
    return names;
  }

  UniqueFd memory_{::memfd_create("queue", MFD_CLOEXEC)};
  std::vector<std::unique_ptr<client::QueueMemory>> queues_;
  std::vector<std::unique_ptr<client::GatherMemory>> gathers_;
  std::vector<std::unique_ptr<client::HandoverState>> states_;
  std::map<wire::Op, std::uint64_t> asked_;
  World world_;
  ClientProcess* a_;
  ClientProcess* b_;
  Handle d_;
};

}  // namespace spate::cluster
