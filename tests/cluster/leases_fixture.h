// SPDX-License-Identifier: Apache-2.0
// Fixture of the tests of leases: two clients that keep names and attributes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/expect.h"
#include "client/attributes/copies.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {

/// A holder of copies that drops them only when the test calls drop().
class SlowCopies final : public client::Copies {
 public:
  Names takes_names() const override { return Names::kOfAll; }
  bool begin_attributes(Handle, MonoTime) override { return true; }
  void drop_attributes(Handle) override { dropping_ = true; }
  void drop_names() override { dropping_ = true; }
  bool when_dropped(UniqueFunction<void()> then) override {
    if (dropping_) waiting_.push_back(std::move(then));
    return dropping_;
  }
  bool dropping() const { return dropping_; }
  void drop() {
    dropping_ = false;
    for (UniqueFunction<void()>& then : std::exchange(waiting_, {})) then();
  }

 private:
  bool dropping_ = false;
  std::vector<UniqueFunction<void()>> waiting_;
};

class LeasesTest : public ::testing::Test {
 protected:
  explicit LeasesTest(const WorldOptions& options = {}) : world_(options), a_(&start()), b_(&start()) {
    world_.watch().on_arrival([this](const WatchedRequest& request) { ++asked_[request.op]; });
  }

  ClientProcess& start() {
    client::Options options = small_client_options({}, {}, {});
    options.keep_attributes = true;
    return world_.start_client(std::move(options));
  }
  template <typename T>
  T run(ClientProcess& process, job::Task<T> task) {
    return call(world_, process, std::move(task));
  }
  Result<Attributes> stat(ClientProcess& process, const std::string& path) {
    SPATE_TRY(auto found, run(process, process.client().stat(client::path_from_root(path))));
    return found.attributes;
  }
  std::unique_ptr<client::File> create(ClientProcess& process, const std::string& path) {
    auto made = run(process, process.client().create(client::path_from_root(path), wire::kOpenWrite, {}));
    EXPECT_OK(made);
    return made ? *std::move(made) : nullptr;
  }
  void make_file(ClientProcess& process, const std::string& path) {
    auto file = create(process, path);
    ASSERT_NE(file, nullptr);
    EXPECT_OK(run(process, file->close()));
  }
  Result<Attributes> chmod(ClientProcess& process, const std::string& path, std::uint32_t mode) {
    wire::SetattrRequest request;
    request.where = client::path_from_root(path);
    request.mode = mode;
    return run(process, process.client().setattr(request));
  }
  /// Lists the directory, which fits one page, with attributes.
  std::map<std::string, Attributes> list(ClientProcess& process, Handle directory) {
    wire::ReaddirRequest request;
    request.handle = directory;
    request.attributes = true;
    const auto page = run(process, process.client().readdir(request));
    EXPECT_OK(page);
    std::map<std::string, Attributes> entries;
    if (!page) return entries;
    EXPECT_TRUE(page->end);
    for (const wire::DirectoryEntry& entry : page->entries) entries[entry.name] = entry.attributes.value();
    return entries;
  }
  /// Requests for names and attributes that the meta server has had since the last call.
  std::uint64_t look_ups() {
    std::uint64_t sum = 0;
    for (const wire::Op op : {wire::Op::kLookup, wire::Op::kLookupLease, wire::Op::kGetattr})
      sum += std::exchange(asked_[op], 0);
    return sum;
  }
  /// Sets the latency between the client and the io servers.
  void set_data_latency(ClientProcess& process, Duration latency) {
    for (const ServerId id : world_.servers()) {
      if (id == kMetaServer) continue;
      world_.fabric().links().set_link(process.node(), id.value, {.latency = latency});
    }
  }
  /// Whether the client can answer from its own memory.
  bool kept(ClientProcess& process, const std::string& path) {
    return process.client().kept_attributes(client::path_from_root(path)).has_value();
  }
  client::AttributeCache::Counters counters(ClientProcess& process) {
    return process.client().cluster().attributes().counters();
  }

  SlowCopies copies_;
  std::map<wire::Op, std::uint64_t> asked_;
  World world_;
  ClientProcess* a_;
  ClientProcess* b_;
};

}  // namespace spate::cluster
