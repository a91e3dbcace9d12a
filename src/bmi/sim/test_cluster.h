// SPDX-License-Identifier: Apache-2.0
// For the tests of this folder: processes on a fabric, each with a Network and a record of its completions.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/expect.h"
#include "bmi/network.h"
#include "bmi/sim/fabric.h"
#include "bmi/sim/network_interface.h"

namespace spate::bmi::sim {

struct Process {
  std::uint32_t node = 0;
  std::unique_ptr<Network> network;
  ContextId context;
  std::map<OpId, Completion> done;
  std::deque<UnexpectedMessage> arrived;
};

class Cluster {
 public:
  explicit Cluster(std::uint64_t seed = 1, FabricOptions options = {}) : random(seed), fabric(clock, random, options) {}

  /// A process on `node` with `paths` networks, listening on all of them.
  Process& start(std::uint32_t node, std::uint32_t paths = 1, NetworkOptions options = {}) {
    auto process = std::make_unique<Process>();
    process->node = node;
    std::vector<std::unique_ptr<Module>> modules;
    for (std::uint32_t path = 0; path < paths; ++path) modules.push_back(attach(fabric, node, path));
    process->network = make_network(std::move(modules), options);
    process->context = process->network->open_context();
    for (std::uint32_t path = 0; path < paths; ++path) {
      EXPECT_OK(process->network->listen(url_of({node, path}), process->context));
    }
    processes.push_back(std::move(process));
    return *processes.back();
  }

  static Address lookup(Process& from, std::vector<std::string> urls) {
    const Result<Address> address = from.network->lookup(urls);
    EXPECT_OK(address);
    return address ? *address : Address{};
  }
  static Address lookup(Process& from, const Process& to) { return lookup(from, {url_of({to.node, 0})}); }

  static OpId post(Process& at, const Result<Posted>& posted) {
    EXPECT_OK(posted);
    if (!posted) return {};
    if (posted->done) at.done.emplace(posted->op, posted->completion);
    return posted->op;
  }
  static OpId send(Process& from, Address to, std::uint64_t tag, ByteView data,
                   MessageClass c = MessageClass::kControl) {
    const std::array<Segment, 1> segments{Segment::of(data)};
    return post(from, from.network->post_send({to, Tag{tag}, c, segments}, from.context, nullptr));
  }
  static OpId recv(Process& at, Address from, std::uint64_t tag, MutableByteView room,
                   MessageClass c = MessageClass::kControl) {
    const std::array<Segment, 1> segments{Segment::of(room)};
    return post(at, at.network->post_recv({from, Tag{tag}, c, segments}, at.context, nullptr));
  }
  static OpId request(Process& from, Address to, std::uint64_t tag, ByteView data) {
    const std::array<Segment, 1> segments{Segment::of(data)};
    return post(from, from.network->post_send_unexpected({to, Tag{tag}, MessageClass::kControl, segments}, from.context,
                                                         nullptr));
  }

  void test_all() {
    for (const auto& process : processes) {
      std::array<Completion, 16> completions;
      std::array<UnexpectedMessage, 16> messages;
      for (std::size_t n = 1; n > 0;) {
        n = process->network->test_context(process->context, completions);
        for (std::size_t i = 0; i < n; ++i)
          EXPECT_TRUE(process->done.emplace(completions[i].op, completions[i]).second)
              << "operation " << completions[i].op.value << " ended twice";
        const std::size_t m = process->network->test_unexpected(process->context, messages);
        for (std::size_t i = 0; i < m; ++i) process->arrived.push_back(std::move(messages[i]));
        n += m;
      }
    }
  }
  /// False: no event is left, and `until` does not hold.
  testing::AssertionResult drive(const std::function<bool()>& until) {
    for (;;) {
      test_all();
      if (until()) return testing::AssertionSuccess();
      if (!fabric.deliver_next()) return testing::AssertionFailure() << "no event is left, and it does not hold";
    }
  }
  void settle() {
    drive([] { return false; });
  }
  Errc finish(Process& process, OpId op) {
    EXPECT_TRUE(drive([&] { return process.done.contains(op); })) << "operation " << op.value << " never ends";
    return process.done.contains(op) ? process.done.at(op).status : Errc::kTimeout;
  }
  /// The address under which `server` knows `client`, from a request that this sends.
  Address introduce(Process& client, Address to_server, Process& server) {
    const Bytes hello(8);
    request(client, to_server, 4711, hello);
    EXPECT_TRUE(drive([&] { return !server.arrived.empty(); }));
    if (server.arrived.empty()) return {};
    const Address address = server.arrived.back().peer;
    server.arrived.clear();
    return address;
  }

  ManualClock clock;
  SeededRandom random;
  Fabric fabric;
  std::vector<std::unique_ptr<Process>> processes;
};

}  // namespace spate::bmi::sim
