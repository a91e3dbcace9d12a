// SPDX-License-Identifier: Apache-2.0
// The core over scripted modules: operations, contexts, addresses. What modules must do: tests/bmi.
#include "bmi/network.h"

#include <gmock/gmock.h>

#include <array>
#include <limits>
#include <optional>
#include <set>

#include "base/expect.h"
#include "bmi/network_fixture.h"

namespace spate::bmi {
namespace {

TEST_F(CoreTest, TheSameListIsTheSameAddress) {
  const Address first = lookup({"a://1", "b://2"});
  EXPECT_EQ(lookup({"a://1", "b://2"}), first);
  EXPECT_NE(lookup({"b://2", "a://1"}), first);
  EXPECT_NE(lookup({"a://1"}), first);
}

TEST_F(CoreTest, AClaimedAddressIsNotReturnedByAnotherLookup) {
  const std::array<std::string, 2> urls{"a://1", "b://2"};
  const Address first = network_->claim(urls).value();
  const Address second = network_->claim(urls).value();
  EXPECT_NE(first, second);
  EXPECT_NE(lookup({"a://1", "b://2"}), first);
  EXPECT_NE(lookup({"a://1", "b://2"}), second);
  (void)post(first);
  (void)post(second);
  ASSERT_EQ(a_->posts.size(), 2U);
  EXPECT_NE(a_->posts[0].post.peer, a_->posts[1].post.peer) << "their connections are two";
  EXPECT_ERRC(network_->claim(std::array<std::string, 1>{"nonsense"}), Errc::kBadAddress);
  EXPECT_ERRC(network_->claim(std::array<std::string, 1>{"c://1"}), Errc::kNoSuchModule);
}

TEST_F(CoreTest, AReleasedAddressIsClaimedAgainWithoutItsConnection) {
  const std::array<std::string, 2> urls{"a://1", "b://2"};
  const Address first = network_->claim(urls).value();
  const OpId moved = post(first).op;
  a_->complete(moved, Errc::kUnreachable);
  b_->complete(moved);
  (void)completions(context_);
  const PeerId peer = a_->posts.back().post.peer;
  a_->sink->unexpected(peer, first, Tag(2), Buffer(1), 7);
  a_->failures[peer] = "nobody listens there";
  network_->release(first);
  std::array<UnexpectedMessage, 1> out;
  EXPECT_EQ(network_->test_unexpected(context_, out), 0U) << "it came by the connection that has ended";
  EXPECT_EQ(a_->given_back, (std::vector<std::pair<PeerId, std::uint64_t>>{{peer, 7}}))
      << "the next connection would have less credit";
  EXPECT_EQ(a_->disconnected.size() + b_->disconnected.size(), 2U);
  network_->release(first);  // no caller has claimed it now
  EXPECT_NE(network_->claim(std::array<std::string, 1>{"a://1"}).value(), first);
  EXPECT_EQ(network_->claim(urls).value(), first)
      << "processes that make many channels would need more and more memory";
  EXPECT_TRUE(network_->peer_info(first).failed.empty()) << "it is the failure of somebody else's attempt";
  EXPECT_NE(network_->claim(urls).value(), first);
  const ContextId other = network_->open_context();
  (void)network_->post_send(message(first), other, nullptr).value();
  EXPECT_EQ(a_->posts.size(), 2U) << "begins with the first URL again";
  a_->sink->unexpected(a_->posts.back().post.peer, first, Tag(3), Buffer(1), 1);
  EXPECT_EQ(network_->test_unexpected(other, out), 1U) << "whoever has it now gets what comes from it";
}

TEST_F(CoreTest, AddressesThatNobodyHasClaimedAreNotReleased) {
  const Address shared = lookup({"a://1"});
  network_->release(shared);
  EXPECT_TRUE(a_->disconnected.empty()) << "others may be using it";
  EXPECT_NE(network_->claim(std::array<std::string, 1>{"a://1"}).value(), shared);
}

TEST_F(CoreTest, BadUrlsAreRefusedAndUnknownModulesSkipped) {
  EXPECT_ERRC(network_->lookup(std::array<std::string, 1>{"nonsense"}), Errc::kBadAddress);
  EXPECT_ERRC(network_->lookup(std::array<std::string, 1>{"a://bad"}), Errc::kBadAddress);
  EXPECT_ERRC(network_->lookup(std::array<std::string, 1>{"c://1"}), Errc::kNoSuchModule);
  EXPECT_ERRC(network_->lookup({}), Errc::kBadAddress);
  const Address address = lookup({"c://1", "b+x://2"});
  (void)post(address);
  EXPECT_EQ(b_->posts.size(), 1U);
}

TEST_F(CoreTest, CompletionsCarryTheUserPointerToTheirContext) {
  const ContextId other = network_->open_context();
  const Address peer = lookup({"a://1"});
  int user = 0;
  const Posted posted = network_->post_recv(message(peer), other, &user).value();
  ASSERT_FALSE(posted.done) << "nothing was completed yet";
  a_->complete(posted.op, Errc::kOk, 5);
  EXPECT_THAT(completions(context_), testing::IsEmpty());
  const std::vector<Completion> done = completions(other);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].op, posted.op);
  EXPECT_EQ(done[0].user, &user);
  EXPECT_EQ(done[0].actual_size, 5U);
}

TEST_F(CoreTest, TestingSomeOperationsLeavesTheOthersQueued) {
  const Address peer = lookup({"a://1"});
  std::vector<OpId> ops;
  for (int i = 0; i < 5; ++i) ops.push_back(post(peer).op);
  EXPECT_EQ(network_->test(context_, ops[2]), std::nullopt);
  for (const OpId op : ops) a_->complete(op);
  EXPECT_EQ(network_->test(context_, ops[2])->op, ops[2]);
  EXPECT_EQ(network_->test(context_, ops[2]), std::nullopt);
  const std::array<OpId, 3> wanted{ops[4], ops[2], ops[0]};
  std::array<Completion, 3> out;
  ASSERT_EQ(network_->test_some(context_, wanted, out), 2U);
  EXPECT_EQ(out[0].op, ops[4]);
  EXPECT_EQ(out[1].op, ops[0]);
  const std::vector<Completion> rest = completions(context_);
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[0].op, ops[1]);
  EXPECT_EQ(rest[1].op, ops[3]);
}

TEST_F(CoreTest, AnOperationIsTestedInItsOwnContextOnly) {
  const ContextId other = network_->open_context();
  const OpId op = post(lookup({"a://1"})).op;
  a_->complete(op);
  EXPECT_EQ(network_->test(other, op), std::nullopt);
  EXPECT_NE(network_->test(context_, op), std::nullopt);
}

TEST_F(CoreTest, ImmediateCompletionQueuesNothing) {
  a_->at_once = true;
  const Posted posted = post(lookup({"a://1"}), this);
  EXPECT_TRUE(posted.done) << "the module completed it in its post";
  EXPECT_EQ(posted.completion.user, this);
  EXPECT_EQ(posted.completion.actual_size, memory_.size());
  EXPECT_THAT(completions(context_), testing::IsEmpty());
}

TEST_F(CoreTest, OperationIdsAreNeverReused) {
  a_->at_once = true;
  b_->sends_at_once = true;
  std::set<std::uint64_t> seen;
  for (const Address peer : {lookup({"a://1"}), lookup({"b://1"})}) {
    for (int i = 0; i < 1000; ++i)
      EXPECT_TRUE(seen.insert(post(peer).op.value).second) << "the operation id was used before, at post " << i;
  }
}

TEST_F(CoreTest, SmallMessagesTakeNoOperationWhereTheModuleCanDoWithout) {
  a_->sends_at_once = true;
  const Address peer = lookup({"a://1"});
  const Posted sent = post(peer, this);
  EXPECT_TRUE(sent.done) << "the module sent it in its post";
  EXPECT_EQ(sent.completion.op, sent.op);
  EXPECT_EQ(sent.completion.user, this);
  EXPECT_EQ(sent.completion.actual_size, memory_.size());
  EXPECT_EQ(network_->test(context_, sent.op), std::nullopt) << "told by the post already";
  network_->cancel(sent.op);
  EXPECT_THAT(a_->cancelled, testing::IsEmpty());
  a_->room = false;
  EXPECT_FALSE(post(peer).done) << "the module has no room";
  a_->complete(a_->last());
  EXPECT_EQ(completions(context_).size(), 1U);
  // The core does not ask the module about receives and about messages that are too large.
  EXPECT_EQ(a_->asked_to_send_at_once, 2);
  ASSERT_OK(network_->post_recv(message(peer), context_, nullptr));
  Bytes large(network_->options().eager_limit_bytes + 1);
  const Segment segment = Segment::of(MutableByteView(large));
  ASSERT_OK(network_->post_send({.peer = peer, .tag = Tag(1), .segments = {&segment, 1}}, context_, nullptr));
  EXPECT_EQ(a_->asked_to_send_at_once, 2);
}

TEST_F(CoreTest, ARefusedPostLeavesNothingBehind) {
  const Address peer = lookup({"a://1"});
  a_->refuse = Errc::kConnectionLost;
  EXPECT_ERRC(network_->post_send(message(peer), context_, nullptr), Errc::kConnectionLost);
  EXPECT_ERRC(network_->post_send(message(Address(77)), context_, nullptr), Errc::kConnectionLost);
  network_->close_context(context_);
}

TEST_F(CoreTest, ImpossibleMessagesAreRefused) {
  const Address peer = lookup({"a://1"});
  Message m = message(peer);
  const std::array<Segment, 1> file{Segment::of_file(0, 0, 10)};
  m.segments = file;
  EXPECT_ERRC(network_->post_recv(m, context_, nullptr), Errc::kInvalidArgument);
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max() / 4;
  const std::array<Segment, 3> huge{Segment{memory_.data(), -1, 0, kHuge}, Segment{memory_.data(), -1, 0, kHuge},
                                    Segment{memory_.data(), -1, 0, kHuge}};
  m.segments = huge;
  EXPECT_ERRC(network_->post_send(m, context_, nullptr), Errc::kInvalidArgument);
  const std::array<Segment, 1> beyond{Segment::of_file(0, std::numeric_limits<std::uint64_t>::max() - 5, 10)};
  m.segments = beyond;
  EXPECT_ERRC(network_->post_send(m, context_, nullptr), Errc::kInvalidArgument);
  const std::array<Segment, 1> large{Segment{memory_.data(), -1, 0, network_->options().max_unexpected_bytes + 1}};
  m.segments = large;
  EXPECT_ERRC(network_->post_send_unexpected(m, context_, nullptr), Errc::kMessageTooBig);
  EXPECT_THAT(a_->posts, testing::IsEmpty());
}

TEST_F(CoreTest, AnUnreachableUrlHandsItsOperationsToTheNextOne) {
  const Address peer = lookup({"a://1", "b://2"});
  const OpId first = post(peer).op;
  const Posted receive = network_->post_recv(message(peer), context_, this).value();
  a_->complete(first, Errc::kUnreachable);
  a_->complete(receive.op, Errc::kUnreachable);
  EXPECT_THAT(completions(context_), testing::IsEmpty());
  ASSERT_EQ(b_->posts.size(), 2U);
  EXPECT_EQ(b_->posts[0].post.op, first);
  EXPECT_FALSE(b_->posts[0].receive) << "the first operation was a send";
  EXPECT_TRUE(b_->posts[1].receive) << "the second operation was a receive";
  EXPECT_EQ(b_->posts[1].post.tag, Tag(9));
  ASSERT_EQ(b_->posts[1].segments.size(), 1U);
  EXPECT_EQ(b_->posts[1].segments[0].memory, memory_.data());
  (void)post(peer);  // later posts begin with that URL
  EXPECT_EQ(b_->posts.size(), 3U);
  EXPECT_EQ(network_->peer_info(peer).url, "b://2");
  b_->complete(first, Errc::kUnreachable);  // now every URL has failed the operation
  const std::vector<Completion> done = completions(context_);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, Errc::kUnreachable);
}

TEST_F(CoreTest, TheFirstUrlIsUsedAgainOnRequest) {
  const Address peer = lookup({"a://1", "b://2"});
  const OpId moved = post(peer).op;
  a_->complete(moved, Errc::kUnreachable);
  ASSERT_EQ(b_->posts.size(), 1U);
  b_->complete(moved);
  b_->complete(post(peer).op);
  EXPECT_EQ(b_->posts.size(), 2U) << "the one that worked";
  network_->prefer_first_url(peer);
  a_->complete(post(peer).op);
  EXPECT_EQ(a_->posts.size(), 2U);
  EXPECT_EQ(b_->posts.size(), 2U);
}

TEST_F(CoreTest, AnOperationThatLosesItsConnectionIsNotPostedAgain) {
  const Address peer = lookup({"a://1", "b://2"});
  const OpId op = post(peer).op;
  a_->complete(op, Errc::kConnectionLost);
  EXPECT_THAT(b_->posts, testing::IsEmpty());
  EXPECT_EQ(network_->test(context_, op)->status, Errc::kConnectionLost);
}

TEST_F(CoreTest, ACancelReachesAnOperationThatMovedOn) {
  const Address peer = lookup({"a://1", "b://2"});
  const OpId op = post(peer).op;
  network_->cancel(op);
  EXPECT_EQ(a_->cancelled, std::vector{op});
  a_->complete(op, Errc::kUnreachable);  // the module had said nothing else about the operation
  EXPECT_THAT(b_->posts, testing::IsEmpty());
  EXPECT_EQ(network_->test(context_, op)->status, Errc::kCancelled);
  network_->cancel(op);  // the operation is unknown by now
}

TEST_F(CoreTest, UnexpectedMessagesGoToTheListeningContextAndAreGivenBackWhenTaken) {
  const ContextId listening = network_->open_context();
  ASSERT_OK(network_->listen("a://0", listening));
  const Address peer = a_->sink->inbound(PeerId(50), a_->listening);
  a_->sink->unexpected(PeerId(50), peer, Tag(3), Buffer(10), 266);
  std::array<UnexpectedMessage, 4> out;
  EXPECT_EQ(network_->test_unexpected(context_, out), 0U);
  EXPECT_THAT(a_->given_back, testing::IsEmpty());
  ASSERT_EQ(network_->test_unexpected(listening, out), 1U);
  EXPECT_EQ(out[0].peer, peer);
  EXPECT_EQ(out[0].tag, Tag(3));
  EXPECT_EQ(out[0].payload.size(), 10U);
  ASSERT_EQ(a_->given_back.size(), 1U);
  EXPECT_EQ(a_->given_back[0], std::pair(PeerId(50), std::uint64_t{266}));
}

TEST_F(CoreTest, MessagesForAClosedContextAreDroppedAndGivenBack) {
  const ContextId listening = network_->open_context();
  ASSERT_OK(network_->listen("a://0", listening));
  const Address peer = a_->sink->inbound(PeerId(50), listening);
  a_->sink->unexpected(PeerId(50), peer, Tag(3), Buffer(10), 1);
  network_->close_context(listening);
  a_->sink->unexpected(PeerId(50), peer, Tag(4), Buffer(10), 2);
  EXPECT_EQ(a_->given_back.size(), 2U);
}

TEST_F(CoreTest, ALookedUpPeersMessagesGoToTheContextThatFirstPostedToIt) {
  const Address peer = lookup({"a://1"});
  (void)post(peer);
  a_->sink->unexpected(PeerId(1), peer, Tag(3), Buffer(1), 1);
  std::array<UnexpectedMessage, 1> out;
  EXPECT_EQ(network_->test_unexpected(context_, out), 1U);
}

TEST_F(CoreTest, PostsToAForgottenPeerFail) {
  ASSERT_OK(network_->listen("a://0", context_));
  const Address peer = a_->sink->inbound(PeerId(50), context_);
  a_->sink->forgotten(PeerId(50), peer);
  EXPECT_ERRC(network_->post_send(message(peer), context_, nullptr), Errc::kConnectionLost);
  EXPECT_THAT(network_->peer_info(peer).url, testing::IsEmpty());
}

TEST_F(CoreTest, ConnectionsOfAllUrlsAreCounted) {
  const Address peer = lookup({"a://1", "b://2"});
  a_->connections = 2;
  b_->connections = 3;
  EXPECT_EQ(network_->peer_info(peer).connection, 5U);
  EXPECT_EQ(network_->peer_info(peer).url, "a://1");
  network_->disconnect(peer);
  EXPECT_EQ(a_->disconnected.size() + b_->disconnected.size(), 2U);
}

TEST_F(CoreTest, AllocatedMemoryIsAlignedAndRegistered) {
  const MutableByteView memory = network_->mem_alloc(10'000);
  ASSERT_EQ(memory.size(), 10'000U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0U);
  EXPECT_EQ(a_->registered, std::vector{memory.data()});
  EXPECT_EQ(b_->registered, std::vector{memory.data()});
  network_->mem_free(memory);
  EXPECT_THAT(a_->registered, testing::IsEmpty());
}

TEST(Network, AModuleThatCannotStartIsLeftOut) {
  std::vector<std::unique_ptr<Module>> modules;
  modules.push_back(std::make_unique<FakeModule>("a"));
  static_cast<FakeModule*>(modules[0].get())->fail_start = true;
  const std::unique_ptr<Network> network = make_network(std::move(modules));
  EXPECT_ERRC(network->lookup(std::array<std::string, 1>{"a://1"}), Errc::kNoSuchModule);
  EXPECT_EQ(network->wait_descriptor(network->open_context()), -1);
}

}  // namespace
}  // namespace spate::bmi
