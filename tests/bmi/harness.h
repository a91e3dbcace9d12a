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
/// The offset where `data` first differs from fill_pattern's bytes; nothing when all bytes agree.
std::optional<std::uint64_t> first_difference(ByteView data, std::uint64_t tag, std::uint64_t seq);
/// The first `size` bytes of the message (tag, seq).
Bytes pattern(std::uint64_t tag, std::uint64_t seq, std::size_t size);

/// How a failure prints a subject.
std::ostream& operator<<(std::ostream& out, const Subject& subject);

/// One process of the world, and its completions so far.
struct Process {
  std::unique_ptr<Network> network;
  ContextId context;
  std::string url;                  // empty: does not listen
  std::map<OpId, Completion> done;  // of `context` only
  std::deque<UnexpectedMessage> arrived;
  std::uint64_t completed = 0;  // completions so far, immediate ones included
  bool tested = true;           // false: drive() does not test this peer, as if it slept
  bool takes_unexpected = true;

  Network* operator->() const { return network.get(); }
};

/// The parameters of a post.
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

  /// Starts a new process, which listens if asked.
  Process& start(bool listens, const NetworkOptions& options = {});
  /// `peer` dies; its completions are forgotten.
  void kill(Process& peer);
  /// Starts the process again with empty tables. It listens where it did.
  void restart(Process& peer, const NetworkOptions& options = {});
  Address lookup(Process& from, const std::string& url);
  /// The server's address for the client, from an unexpected message that this sends.
  Address introduce(Process& client, Address server_address, Process& server);

  /// A client and a server that know each other: what most tests begin with.
  struct Pair {
    Process* client;
    Process* server;
    Address to_server;
    Address to_client;
  };
  Pair start_pair(const NetworkOptions& options = {});

  OpId send(Process& from, const Post& post, ByteView data);
  OpId send_list(Process& from, const Post& post, SegmentList segments);
  OpId recv(Process& at, const Post& post, MutableByteView room);
  OpId recv_list(Process& at, const Post& post, SegmentList segments);
  OpId send_unexpected(Process& from, const Post& post, ByteView data);
  /// Records a posted operation, which may have completed at once. Returns its id.
  OpId posted(Process& peer, const Result<Posted>& result);

  /// Tests every peer once. Returns how many completions and messages were found.
  std::size_t step();
  /// Tests and waits until `until` holds. False when it never will, or when it does not within the suite's timeout.
  bool drive(const std::function<bool()>& until);
  /// Drives until nothing happens any more.
  void settle();
  bool is_done(const Process& peer, OpId op) const { return peer.done.contains(op); }
  /// Drives until `op` has completed, and returns its completion. If it never completes, the test fails and the result
  /// is kTimeout.
  Completion finish(Process& peer, OpId op);
  /// Checks that a message of `size` bytes arrives whole.
  void expect_passes(const Pair& pair, std::uint64_t tag, std::size_t size, bool from_client = true,
                     MessageClass message_class = MessageClass::kControl);

  std::unique_ptr<World> world_;

 private:
  std::vector<Waiter> waiters() const;
  std::vector<std::unique_ptr<Process>> peers_;
};

}  // namespace spate::bmi::conformance
