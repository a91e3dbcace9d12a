// SPDX-License-Identifier: Apache-2.0
// instructions_program NETWORK KIND BYTES COUNT: two network instances in one process exchange COUNT messages. The
// instances take turns, step by step. Nothing sleeps or spins, so every run executes the same instructions, as
// callgrind needs. KIND: unexpected, control or bulk.
#include <fmt/core.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "assembly/registry.h"
#include "base/check.h"
#include "base/clock.h"
#include "bmi/network.h"

namespace spate::bench {
namespace {

constexpr bmi::Tag kTag(3);

struct End {
  std::unique_ptr<bmi::Network> network;
  bmi::ContextId context;
  bmi::Address peer;
  std::vector<std::byte> memory;
  std::uint64_t open = 0;
  std::array<bmi::Completion, 64> done;
  std::array<bmi::UnexpectedMessage, 8> arrived;

  explicit End(std::size_t bytes) : memory(bytes) {
    static SystemClock clock;
    network = assembly::make_network(clock, config::FileSystemConfig(), false).value();
    context = network->open_context();
  }
  void note(const Result<bmi::Posted>& posted) {
    SPATE_CHECK(posted.has_value());
    if (!posted->done) ++open;
  }
  void step() {
    const std::size_t n = network->test_context(context, done);
    for (std::size_t i = 0; i < n; ++i) SPATE_CHECK(done[i].status == Errc::kOk);
    open -= n;
  }
};

bmi::Message message_to(End& end, bmi::SegmentList segments) {
  bmi::Message message;
  message.peer = end.peer;
  message.tag = kTag;
  message.segments = segments;
  return message;
}

/// Older builds of bmi, with which this one is compared, do not have Network::admit().
template <typename Network>
void admit(Network& network, bmi::Address peer) {
  if constexpr (requires { network.admit(peer); }) network.admit(peer);
}

void meet(End& client, End& server, const std::string& name) {
  const std::string url =
      server.network->listen(name == "shm" ? "shm://*" : name + "://127.0.0.1:0", server.context).value();
  client.peer = client.network->lookup(std::array{url}).value();
  client.note(client.network->post_send_unexpected(message_to(client, {}), client.context, nullptr));
  std::size_t n = 0;
  while (n == 0 || client.open > 0 || !client.network->peer_info(client.peer).connected) {
    client.step();
    server.step();
    if (n == 0) n = server.network->test_unexpected(server.context, server.arrived);
  }
  server.peer = server.arrived[0].peer;
  admit(*server.network, server.peer);
}

void unexpected(End& client, End& server) {
  const bmi::Segment from = bmi::Segment::of(MutableByteView(client.memory));
  client.note(client.network->post_send_unexpected(message_to(client, {&from, 1}), client.context, nullptr));
  for (std::size_t n = 0; n == 0 || client.open > 0;) {
    client.step();
    server.step();
    if (n == 0) n = server.network->test_unexpected(server.context, server.arrived);
  }
  for (bmi::UnexpectedMessage& one : server.arrived) one = {};
}

void expected(End& client, End& server, bmi::MessageClass c) {
  const bmi::Segment from = bmi::Segment::of(MutableByteView(client.memory));
  const bmi::Segment to = bmi::Segment::of(MutableByteView(server.memory));
  server.note(server.network->post_recv({server.peer, kTag, c, {&to, 1}}, server.context, nullptr));
  client.note(client.network->post_send({client.peer, kTag, c, {&from, 1}}, client.context, nullptr));
  while (client.open > 0 || server.open > 0) {
    client.step();
    server.step();
  }
}

}  // namespace
}  // namespace spate::bench

int main(int argc, char** argv) {
  using namespace spate::bench;
  if (argc != 5) {
    fmt::print(stderr, "usage: instructions_program tcp|shm unexpected|control|bulk BYTES COUNT\n");
    return 2;
  }
  const std::string kind = argv[2];
  const auto bytes = static_cast<std::size_t>(std::atol(argv[3]));
  End client(bytes);
  End server(bytes);
  meet(client, server, argv[1]);
  for (long i = std::atol(argv[4]); i > 0; --i) {
    if (kind == "unexpected") {
      unexpected(client, server);
    } else {
      expected(client, server, kind == "bulk" ? spate::bmi::MessageClass::kBulk : spate::bmi::MessageClass::kControl);
    }
  }
  return 0;
}
