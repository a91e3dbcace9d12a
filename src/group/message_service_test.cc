// SPDX-License-Identifier: Apache-2.0
#include "group/message_service.h"

#include "base/expect.h"
#include "coord/sim/sim_coordinator.h"
#include "group/group_bootstrap.h"
#include "trove/kvmem/memory_keyval.h"

namespace spate::group {
namespace {

/// Stands for members that do not run: each gives the answer that the test has set, or none.
class TableLink final : public Link {
 public:
  job::Task<Result<Answer>> send(ServerId to, std::shared_ptr<const Message> /*message*/, Duration /*timeout*/,
                                 job::StopToken /*stop*/) override {
    if (++asked == 4) enough.request_stop();
    const auto found = answers.find(to);
    if (found == answers.end()) co_return Errc::kTimeout;
    co_return found->second;
  }
  std::map<ServerId, Answer> answers;
  unsigned asked = 0;
  job::StopSource enough;
};

class GroupMember : public testing::Test {
 protected:
  GroupMember() {
    member_.emplace(MemberOptions{0, ServerId(1), 1, 1, {}}, coordinator_, link_, records_, keyval_);
    service_.emplace(*member_);
    EXPECT_OK(executor_.run(member_->start()));
  }
  ~GroupMember() override { executor_.run(member_->stop()); }

  Result<Bytes> take(const wire::GroupMessageRequest& request) {
    Bytes body;
    wire::encode_body(request, body);
    const rpc::RawHandler& handler = service_->operations().at(wire::Op::kGroupMessage).handler;
    return executor_.run(handler(call_, body));
  }
  /// An encoded query of `parts` parts, all but the last one of the greatest length.
  static Bytes query(std::size_t parts) {
    Message message;
    message.from = ServerId(2);
    message.record = new_group({ServerId(1), ServerId(2)}, 1);
    const std::size_t bytes = (parts - 1) * wire::kGroupPartBytes;
    message.entries.push_back(std::make_shared<const Bytes>(Bytes(bytes, std::byte{7})));
    return encode(message);
  }
  static wire::GroupMessageRequest part_of(const Bytes& message, std::uint32_t part, std::uint32_t parts) {
    wire::GroupMessageRequest request;
    request.message = 5;
    request.part = part;
    request.parts = parts;
    const std::size_t begin = std::min(message.size(), part * wire::kGroupPartBytes);
    const std::size_t end = std::min(message.size(), begin + wire::kGroupPartBytes);
    request.bytes.assign(message.begin() + static_cast<std::ptrdiff_t>(begin),
                         message.begin() + static_cast<std::ptrdiff_t>(end));
    return request;
  }
  Errc join(wire::PeerKind kind) {
    rpc::Peer peer;
    wire::AuthenticateRequest request;
    request.kind = kind;
    wire::AuthenticateReply reply;
    return executor_.run(service_->join(peer, request, reply)).code();
  }
  bool is_founded() { return coordination_.read(record_key(0)).find(record_key(0)) != nullptr; }
  void found() {
    GroupBootstrapOptions options;
    options.self = ServerId(1);
    options.members = {ServerId(1), ServerId(2), ServerId(3)};
    options.timing.read_record = std::chrono::milliseconds(2);
    executor_.run(bootstrap_group(options, coordinator_, link_, *member_, executor_, link_.enough));
  }

  SystemClock clock_;
  SeededRandom random_{1};
  job::Executor executor_{clock_};
  std::unique_ptr<trove::Keyval> store_ = trove::make_memory_keyval();
  trove::ReplicatedKeyval keyval_{*store_, {}};
  job::KeyvalContext records_{keyval_, executor_};
  coord::SimService coordination_{clock_, random_};
  coord::SimCoordinator coordinator_{coordination_, executor_, 1};
  TableLink link_;
  std::optional<Member> member_;
  std::optional<MessageService> service_;
  rpc::Call call_;
};

TEST_F(GroupMember, RefusesClientsAndAdmitsServersBeforeItLeads) {
  EXPECT_EQ(join(wire::PeerKind::kClient), Errc::kNotPrimary);
  EXPECT_EQ(join(wire::PeerKind::kServer), Errc::kOk);
  EXPECT_EQ(service_->elsewhere().code(), Errc::kNotPrimary);
  EXPECT_EQ(service_->part(), "waits for its group");
}

TEST_F(GroupMember, RepliesWithoutDataOfTheStorePass) { EXPECT_OK(executor_.run(service_->pass(false, {}))); }

TEST_F(GroupMember, RepliesOfAFormerLeaderDoNotPass) {
  service_->begin_to_serve();
  EXPECT_ERRC(executor_.run(service_->pass(false, {})), Errc::kNotPrimary);
}

TEST_F(GroupMember, AnswersAMessageOfOnePart) {
  const auto reply = take(part_of(query(1), 0, 1));
  ASSERT_OK(reply);
  const auto decoded = wire::decode_body<wire::GroupMessageReply>(*reply);
  ASSERT_OK(decoded);
  const auto answer = decode_answer(decoded->bytes);
  ASSERT_OK(answer);
  EXPECT_EQ(answer->process, 1U);
}

TEST_F(GroupMember, AssemblesAMessageThoughSomePartsArriveTwice) {
  const Bytes message = query(3);
  for (const std::uint32_t part : {0U, 1U, 1U}) {
    const auto reply = take(part_of(message, part, 3));
    ASSERT_OK(reply);
    EXPECT_EQ(wire::decode_body<wire::GroupMessageReply>(*reply)->bytes.size(), 0U) << part;
  }
  const auto reply = take(part_of(message, 2, 3));
  ASSERT_OK(reply);
  EXPECT_OK(decode_answer(wire::decode_body<wire::GroupMessageReply>(*reply)->bytes));
}

TEST_F(GroupMember, RefusesPartsThatFitNoMessage) {
  const Bytes message = query(3);
  EXPECT_ERRC(take(part_of(message, 1, 3)), Errc::kProtocol);  // none came before it
  ASSERT_OK(take(part_of(message, 0, 3)));
  EXPECT_ERRC(take(part_of(message, 2, 3)), Errc::kProtocol);
  EXPECT_ERRC(take(part_of(message, 3, 3)), Errc::kProtocol);
  EXPECT_ERRC(take(part_of(message, 0, 0)), Errc::kProtocol);
  EXPECT_ERRC(take(part_of(message, 0, wire::kMostGroupParts + 1)), Errc::kProtocol);
  wire::GroupMessageRequest large = part_of(message, 1, 3);
  large.bytes.push_back(std::byte{0});
  EXPECT_ERRC(take(large), Errc::kProtocol);
}

TEST_F(GroupMember, RefusesBytesThatAreNoMessage) {
  for (std::size_t size = 0; size < 200; ++size) {
    wire::GroupMessageRequest request;
    request.bytes.resize(size);
    for (std::byte& byte : request.bytes) byte = static_cast<std::byte>(random_.next());
    EXPECT_ERRC(take(request), Errc::kProtocol) << size;
  }
}

TEST_F(GroupMember, BootstrapsAGroupWhoseMembersAreAllEmpty) {
  link_.answers = {{ServerId(2), Answer()}, {ServerId(3), Answer()}};
  found();
  EXPECT_TRUE(is_founded());
}

TEST_F(GroupMember, MakesNoRecordWhileAnotherMemberIsAway) {
  link_.answers = {{ServerId(2), Answer()}};
  found();
  EXPECT_FALSE(is_founded());
}

TEST_F(GroupMember, MakesNoRecordWhereAnotherMemberHoldsEntries) {
  Answer old;
  old.last = {3, 17};
  link_.answers = {{ServerId(2), Answer()}, {ServerId(3), old}};
  found();
  EXPECT_FALSE(is_founded());
}

}  // namespace
}  // namespace spate::group
