// SPDX-License-Identifier: Apache-2.0
// The suite's fixture: peers in one process, driven until what a test waits for has happened; self-describing data.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/expect.h"
#include "bmi/network.h"
#include "tests/bmi/subject.h"

namespace spate::bmi::conformance {

/// Fills `out` with the bytes [offset, offset + size) of the message that (tag, seq) names.
void fill_pattern(MutableByteView out, std::uint64_t tag, std::uint64_t seq, std::uint64_t offset = 0);
/// Where `data` first differs from fill_pattern's bytes; nothing when it is whole.
std::optional<std::uint64_t> first_difference(ByteView data, std::uint64_t tag, std::uint64_t seq);
/// The first `size` bytes of the message (tag, seq).
Bytes pattern(std::uint64_t tag, std::uint64_t seq, std::size_t size);

/// What a failure prints.
std::ostream& operator<<(std::ostream& out, const Subject& subject);

/// One process of the world, and what it has seen complete.
struct Peer {
  std::unique_ptr<Network> network;
  ContextId context;
  std::string url;                  // empty: does not listen
  std::map<OpId, Completion> done;  // of `context` only
  std::deque<UnexpectedMessage> arrived;
  std::uint64_t completed = 0;  // completions seen, immediate ones included
  bool tested = true;           // false: drive() leaves this peer alone, as if it slept
  bool takes_unexpected = true;

  Network* operator->() const { return network.get(); }
};

/// What to post.
struct Post {
  Address peer;
  std::uint64_t tag = 1;
  MessageClass message_class = MessageClass::kControl;
  bool receiver_ready = false;
  void* user = nullptr;
};

class Bmi : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override;

  /// A new process that listens, or only calls.
  Peer& start(bool listens, const NetworkOptions& options = {});
  /// `peer` dies; its completions are forgotten.
  void kill(Peer& peer);
  /// It comes back with empty tables, and listens where it did.
  void restart(Peer& peer, const NetworkOptions& options = {});
  Address lookup(Peer& from, const std::string& url);
  /// The server's address for the client, learnt from an unexpected message that this sends.
  Address introduce(Peer& client, Address server_address, Peer& server);

  /// A client and a server that know each other: what most tests begin with.
  struct Pair {
    Peer* client;
    Peer* server;
    Address to_server;
    Address to_client;
  };
  Pair start_pair(const NetworkOptions& options = {});

  OpId send(Peer& from, const Post& post, ByteView data);
  OpId send_list(Peer& from, const Post& post, SegmentList segments);
  OpId recv(Peer& at, const Post& post, MutableByteView room);
  OpId recv_list(Peer& at, const Post& post, SegmentList segments);
  OpId send_unexpected(Peer& from, const Post& post, ByteView data);
  /// The post of an operation that may have completed at once.
  OpId posted(Peer& peer, const Result<Posted>& result);

  /// Tests every peer once. How many things were found.
  std::size_t step();
  /// Tests and waits until `until` holds; false when it never will (or after the suite's patience: a hang).
  bool drive(const std::function<bool()>& until);
  /// Drives until nothing happens any more.
  void settle();
  bool is_done(const Peer& peer, OpId op) const { return peer.done.contains(op); }
  /// Drives until `op` has completed and yields its completion (kTimeout, and a failure, when it never does).
  Completion finish(Peer& peer, OpId op);
  /// A message of `size` bytes travels and arrives whole.
  void expect_passes(const Pair& pair, std::uint64_t tag, std::size_t size, bool from_client = true,
                     MessageClass message_class = MessageClass::kControl);

  std::unique_ptr<World> world_;

 private:
  std::vector<Waiter> waiters() const;
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace spate::bmi::conformance
