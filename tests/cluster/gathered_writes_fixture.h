// SPDX-License-Identifier: Apache-2.0
// Fixture of the tests of gathered writes: client `a` gathers, and client `b` looks.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "client/session/gather_memory.h"
#include "client/session/handover_state.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {

inline std::unique_ptr<client::GatherMemory> memory_of(int fd) {
  auto memory = client::GatherMemory::open(fd, 4);
  SPATE_CHECK(memory.has_value());
  return *std::move(memory);
}

/// Bytes that tell their offset.
inline Bytes pattern(std::uint64_t offset, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((offset + i) * 7 % 251);
  return bytes;
}

class GatheredWritesTest : public ::testing::Test {
 protected:
  GatheredWritesTest() : world_({}), a_(&start(&*memory_)), b_(&start(nullptr)) {
    world_.watch().on_arrival([this](const WatchedRequest& request) { ++asked_[request.op]; });
    make_ready();
  }

  ClientProcess& start(client::GatherMemory* memory, client::HandoverState* handover = nullptr) {
    client::Options options = small_client_options({}, {}, {});
    options.keep_attributes = true;
    options.gather = memory;
    options.handover = handover;
    return world_.start_client(std::move(options));
  }
  /// Starts the process of a mount, with memory that outlives it.
  client::HandoverState* start_mount(int state, int bytes) {
    auto handover = client::HandoverState::open(state);
    SPATE_CHECK(handover.has_value());
    states_.push_back(*std::move(handover));
    memories_.push_back(memory_of(bytes));
    a_ = &start(memories_.back().get(), states_.back().get());
    return states_.back().get();
  }
  /// The first lease, and what is known of the targets' room.
  void make_ready() {
    EXPECT_ERRC(run(*a_, a_->client().stat(client::path_from_root("f"))), Errc::kNotFound);
    std::ignore = a_->client().cluster().gathered().has_room();
    world_.run_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(a_->client().cluster().gathered().has_room()) << "the targets have no room";
  }
  template <typename T>
  T run(ClientProcess& process, job::Task<T> task) {
    return call(world_, process, std::move(task));
  }
  static job::Task<Unit> unit(job::Task<void> task) {
    co_await std::move(task);
    co_return Unit();
  }
  void run_void(ClientProcess& process, job::Task<void> task) { std::ignore = run(process, unit(std::move(task))); }
  std::unique_ptr<client::File> create(const std::string& path = "f") {
    auto made = run(*a_, a_->client().create(client::path_from_root(path), kReadWrite, {}));
    SPATE_CHECK(made.has_value());
    return *std::move(made);
  }
  Result<std::unique_ptr<client::File>> open(ClientProcess& process, std::uint8_t flags,
                                             const std::string& path = "f") {
    return run(process, process.client().open(client::path_from_root(path), flags));
  }
  Result<void> gather(client::File& file, std::uint64_t offset, std::size_t size) {
    const Bytes bytes = pattern(offset, size);
    return run(*a_, file.gathering()->write(offset, bytes));
  }
  Result<Attributes> stat(ClientProcess& process, const std::string& path = "f") {
    SPATE_TRY(auto found, run(process, process.client().stat(client::path_from_root(path))));
    return found.attributes;
  }
  Bytes read(ClientProcess& process, client::File& file, std::size_t size) {
    Bytes bytes(size);
    const auto got = run(process, file.read(0, bytes));
    EXPECT_OK(got);
    bytes.resize(static_cast<std::size_t>(got ? *got : 0));
    return bytes;
  }
  std::uint64_t writes() { return std::exchange(asked_[wire::Op::kWrite], 0); }
  bool unsent(const client::File& file) { return a_->client().cluster().gathered().has(file.handle()); }

  std::unique_ptr<client::GatherMemory> memory_ = memory_of(-1);
  std::vector<std::unique_ptr<client::HandoverState>> states_;
  std::vector<std::unique_ptr<client::GatherMemory>> memories_;
  std::map<wire::Op, std::uint64_t> asked_;
  World world_;
  ClientProcess* a_;
  ClientProcess* b_;
};

}  // namespace spate::cluster
