// SPDX-License-Identifier: Apache-2.0
// Client: a client of the io server, for tests. It can also break the rules that a real client keeps.
#pragma once

#include <optional>
#include <vector>

#include "dist/distribution.h"
#include "rpc/channel.h"
#include "tests/io/world.h"

namespace spate::io::testing {

inline constexpr Handle kFile{42};

struct ReadOutcome {
  wire::ReadReply reply;
  std::vector<Bytes> streams;  // by slot: the received bytes
};

struct ClientOptions {
  ClientId client{100};
  std::uint32_t epoch = 1;
  wire::PeerKind kind = wire::PeerKind::kClient;
};

/// Limits which of a write's bulk messages are sent.
struct Sending {
  std::size_t messages = ~std::size_t{0};  // of each slot: only the first so many
  std::uint64_t cut_bytes = 0;             // bytes that the last sent message lacks
};

/// A process of its own. Destroyed before the World.
class Client {
 public:
  explicit Client(World& world, ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// A genuine capability for this client.
  Capability capability(Handle handle, Rights rights = Rights::kReadWrite) const;
  static void sign_again(Capability& capability) { capability.mac = sign(World::server_key(), kFs, capability); }

  /// Sends any request. `capability` may be null.
  template <typename Reply, typename Request>
  Result<Reply> ask(const Request& request, const Capability* capability = nullptr) {
    return world_.run(channel().call<Reply>(request, options_for(capability)));
  }
  template <typename Reply, typename Request>
  job::Task<Result<Reply>> call(const Request& request, const Capability* capability = nullptr) {
    return channel().call<Reply>(request, options_for(capability));
  }

  /// Posts receives for bulk data, or leaves room in the reply, as the request wants.
  job::Task<Result<ReadOutcome>> read(wire::ReadRequest request, Capability capability);
  /// `streams`: the bytes for each slot.
  job::Task<Result<wire::WriteReply>> write(wire::WriteRequest request, std::vector<Bytes> streams,
                                            Capability capability, Sending sending = {});

  World& world() { return world_; }
  rpc::Identity& identity() { return identity_; }
  rpc::Channel& channel() { return *channel_; }
  job::NetworkContext& context() { return *context_; }
  std::uint32_t node() const { return node_; }
  rpc::CallOptions options_for(const Capability* capability);
  void set_deadline(Duration span) { deadline_ = span; }
  /// Another channel of the same client. Its connections begin with the lowest incarnation again.
  std::unique_ptr<rpc::Channel> another_channel();

 private:
  World& world_;
  ClientOptions options_;
  std::uint32_t node_;
  SeededRandom random_;
  std::unique_ptr<bmi::Network> network_;
  std::unique_ptr<job::NetworkContext> context_;
  rpc::Identity identity_;
  std::unique_ptr<rpc::Channel> channel_;
  Duration deadline_ = std::chrono::seconds(100);
};

/// All slots of a file with `slot_count` slots and strips of `strip_bytes`. The slots alternate between the world's two
/// targets.
wire::SlotSet slot_set(Handle handle, std::uint32_t slot_count = 3, std::uint64_t strip_bytes = 4096);
std::unique_ptr<const Distribution> distribution_of(const wire::SlotSet& where);
wire::ReadRequest read_request(const wire::SlotSet& where, datatype::Description what);
wire::WriteRequest write_request(const wire::SlotSet& where, datatype::Description what);

/// Bytes that depend on their position, so that misplaced bytes are noticed.
Bytes pattern(std::uint64_t seed, std::uint64_t size);

}  // namespace spate::io::testing
