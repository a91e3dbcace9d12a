// SPDX-License-Identifier: Apache-2.0
// Features of this module only: located messages, bells, descriptors, credentials. Features of every module: tests/bmi.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <numeric>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "bmi/shm/module_fixture.h"

namespace spate::bmi::shm {
namespace {

class ShmModuleTest : public ModuleTest {
 protected:
  void SetUp() override {
    make({});
    client_ = &start();
    to_server_ = client_->lookup(url_);
    to_client_ = introduce(*client_, to_server_);
  }
  static void fill(MutableByteView memory, int seed) {
    for (std::size_t i = 0; i < memory.size(); ++i)
      memory[i] = static_cast<std::byte>(i * 31 + i / 256 + static_cast<std::size_t>(seed));
  }

  Instance* client_ = nullptr;
  Address to_server_;
  Address to_client_;
};

TEST_F(ShmModuleTest, LargeMessagesOutOfArenasAreCopiedOnce) {
  const MutableByteView memory = (*client_)->mem_alloc(3'000'000);
  fill(memory, 1);
  for (const bool ready : {false, true}) {
    for (const bool receive_first : {false, true}) {
      if (ready && !receive_first) continue;
      SCOPED_TRACE(testing::Message() << ready << receive_first);
      const ShmCounters before = server_->counters();
      Bytes room(memory.size());
      OpId in;
      if (receive_first) in = server_->receive(to_client_, 1, room, MessageClass::kBulk);
      const OpId out = client_->send(to_server_, 1, memory, MessageClass::kBulk, ready);
      settle();
      if (!receive_first) in = server_->receive(to_client_, 1, room, MessageClass::kBulk);
      EXPECT_EQ(finish(*server_, in), Errc::kOk);
      EXPECT_EQ(finish(*client_, out), Errc::kOk);
      EXPECT_BYTES(room, memory);
      EXPECT_EQ(server_->counters().located_bytes - before.located_bytes, memory.size());
      EXPECT_EQ(server_->counters().lane_bytes, before.lane_bytes);
    }
  }
  (*client_)->mem_free(memory);
}

TEST_F(ShmModuleTest, SmallMessagesLeaveInTheirPost) {
  const std::uint64_t before = client_->counters().sent_at_once;
  Bytes data(1000);
  fill(data, 3);
  Bytes room(data.size());
  const OpId in = server_->receive(to_client_, 1, room);
  (void)client_->send(to_server_, 1, data);
  EXPECT_EQ(client_->counters().sent_at_once, before + 1);
  EXPECT_EQ(finish(*server_, in), Errc::kOk);
  EXPECT_EQ(room, data);
  client_->request(to_server_, 2, data);
  EXPECT_EQ(client_->counters().sent_at_once, before + 2);
  EXPECT_TRUE(drive([&] { return !server_->arrived.empty(); }));
  EXPECT_BYTES(server_->arrived.front().payload.view(), data);
}

// A message that cannot leave in its post waits as an operation. Later messages do not overtake it.
TEST_F(ShmModuleTest, AMessageSentInItsPostDoesNotOvertakeEarlierOnes) {
  constexpr std::uint64_t kCount = 600;  // more than the lane's slots
  Bytes data(kCount);
  fill(data, 4);
  const std::uint64_t before = client_->counters().sent_at_once;
  for (std::uint64_t i = 0; i < kCount; ++i) (void)client_->send(to_server_, 1, MutableByteView(data).subspan(i, 1));
  EXPECT_LT(client_->counters().sent_at_once - before, kCount) << "the lane was never full";
  Bytes room(kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(finish(*server_, server_->receive(to_client_, 1, MutableByteView(room).subspan(i, 1))), Errc::kOk);
  }
  EXPECT_EQ(room, data);
}

TEST_F(ShmModuleTest, AControlMessageIsDeliveredBeforeBulkDataThatArrivesWithIt) {
  const Bytes data(100'000);
  Bytes room(data.size());
  Bytes small(10);
  const OpId large = server_->receive(to_client_, 1, room, MessageClass::kBulk);
  const OpId control = server_->receive(to_client_, 2, small);
  (void)client_->send(to_server_, 1, data, MessageClass::kBulk, true);
  (void)client_->send(to_server_, 2, small);
  const std::uint64_t before = server_->counters().lane_bytes;
  server_->step();
  EXPECT_TRUE(server_->done(control));
  EXPECT_EQ(server_->counters().lane_bytes - before, small.size());
  EXPECT_EQ(finish(*server_, large), Errc::kOk);
}

TEST_F(ShmModuleTest, PiecesInArenasAreReceivedIntoPiecesOfAnyMemory) {
  const MutableByteView memory = (*client_)->mem_alloc(1'000'000);
  fill(memory, 2);
  const std::array out{Segment::of(memory.subspan(10, 400'000)), Segment::of(memory.subspan(500'000, 1)),
                       Segment::of(memory.subspan(700'000, 99'999))};
  Bytes room(600'000);
  const std::array in{Segment::of(MutableByteView(room).first(3)),
                      Segment::of(MutableByteView(room).subspan(1000, 500'000))};
  const OpId receive = server_->noted(
      (*server_)->post_recv(server_->message(to_client_, 4, in, MessageClass::kBulk), server_->context(), nullptr));
  const OpId send = client_->noted(
      (*client_)->post_send(client_->message(to_server_, 4, out, MessageClass::kBulk), client_->context(), nullptr));
  EXPECT_EQ(finish(*server_, receive), Errc::kOk);
  EXPECT_EQ(finish(*client_, send), Errc::kOk);
  Bytes want(memory.begin() + 10, memory.begin() + 400'010);
  want.push_back(memory[500'000]);
  want.insert(want.end(), memory.begin() + 700'000, memory.begin() + 799'999);
  EXPECT_BYTES(ByteView(room).first(3), ByteView(want).first(3));
  EXPECT_BYTES(ByteView(room).subspan(1000, want.size() - 3), ByteView(want).subspan(3));
  EXPECT_EQ(server_->completion(receive).actual_size, want.size());
  EXPECT_GT(server_->counters().located_bytes, 0U);
}

TEST_F(ShmModuleTest, MixedMemoryGoesThroughTheLane) {
  const MutableByteView memory = (*client_)->mem_alloc(100'000);
  fill(memory, 3);
  Bytes other(100'000, std::byte{9});
  const std::array out{Segment::of(memory), Segment::of(ByteView(other))};
  Bytes room(200'000);
  const OpId receive = server_->receive(to_client_, 4, room);
  client_->noted(
      (*client_)->post_send(client_->message(to_server_, 4, out, MessageClass::kControl), client_->context(), nullptr));
  EXPECT_EQ(finish(*server_, receive), Errc::kOk);
  EXPECT_BYTES(ByteView(room).first(memory.size()), memory);
  EXPECT_EQ(server_->counters().located_bytes, 0U);
  EXPECT_EQ(server_->counters().lane_bytes, 200'000U);
}

TEST_F(ShmModuleTest, ALocatedMessageThatIsTooLongFailsItsReceive) {
  const MutableByteView memory = (*client_)->mem_alloc(100'000);
  Bytes room(99'999);
  const OpId receive = server_->receive(to_client_, 4, room);
  const OpId send = client_->send(to_server_, 4, memory);
  EXPECT_EQ(finish(*server_, receive), Errc::kMessageTooBig);
  EXPECT_EQ(finish(*client_, send), Errc::kMessageTooBig);
}

TEST_F(ShmModuleTest, AReadyLocatedMessageWithoutAReceiveIsDropped) {
  const MutableByteView memory = (*client_)->mem_alloc(100'000);
  const OpId send = client_->send(to_server_, 4, memory, MessageClass::kBulk, true);
  EXPECT_EQ(finish(*client_, send), Errc::kOk);
  EXPECT_EQ(server_->counters().dropped_messages, 1U);
}

// A sender may use its memory again only when the other side says so.
TEST_F(ShmModuleTest, CancelOfALocatedSendWaitsForTheReader) {
  const MutableByteView memory = (*client_)->mem_alloc(2'000'000);
  fill(memory, 4);
  for (int turns = 0; turns < 40; turns += 1 + turns / 3) {
    SCOPED_TRACE(turns);
    fill(memory, turns);
    const Bytes want(memory.begin(), memory.end());
    Bytes room(memory.size());
    const OpId send = client_->send(to_server_, 5, memory, MessageClass::kBulk);
    OpId receive;
    if (turns % 2 == 0) receive = server_->receive(to_client_, 5, room, MessageClass::kBulk);
    for (int i = 0; i < turns; ++i) step();
    (*client_)->cancel(send);
    const Errc sent = finish(*client_, send);
    EXPECT_THAT(sent, testing::AnyOf(Errc::kOk, Errc::kCancelled));
    std::ranges::fill(memory, std::byte{0});
    if (!receive) continue;
    settle();
    if (server_->done(receive)) {
      EXPECT_EQ(sent, Errc::kOk);
      EXPECT_EQ(room, want);
    } else {
      (*server_)->cancel(receive);
      EXPECT_EQ(finish(*server_, receive), Errc::kCancelled);
    }
  }
  EXPECT_EQ((*client_)->peer_info(to_server_).connection, 1U);
}

TEST_F(ShmModuleTest, AReaderThatDoesNotAnswerACancelIsDropped) {
  const MutableByteView memory = (*client_)->mem_alloc(1'000'000);
  const OpId send = client_->send(to_server_, 5, memory, MessageClass::kBulk);
  settle();
  (*client_)->cancel(send);
  for (int i = 0; i < 10; ++i) client_->step();  // the server does not run, as if it were stopped
  EXPECT_FALSE(client_->done(send));
  clock_.advance(std::chrono::seconds(1));
  for (int i = 0; i < 10; ++i) client_->step();
  ASSERT_TRUE(client_->done(send));
  EXPECT_EQ(client_->completion(send).status, Errc::kConnectionLost);
}

// A receiver that was stopped in the middle of its copy must not take the rest of the memory for the message.
TEST_F(ShmModuleTest, AMessageThatItsSenderGaveUpIsNotReceived) {
  const MutableByteView memory = (*client_)->mem_alloc(2'000'000);
  Bytes room(memory.size());
  const OpId receive = server_->receive(to_client_, 5, room, MessageClass::kBulk);
  client_->send(to_server_, 5, memory, MessageClass::kBulk);
  for (int i = 0; i < 4; ++i) step();
  ASSERT_FALSE(server_->done(receive));
  (*client_)->disconnect(to_server_);
  std::ranges::fill(memory, std::byte{1});
  EXPECT_EQ(finish(*server_, receive), Errc::kConnectionLost);
}

TEST_F(ShmModuleTest, CancelOfAReceiveThatIsBeingCopied) {
  const MutableByteView memory = (*client_)->mem_alloc(2'000'000);
  fill(memory, 9);
  Bytes room(memory.size());
  const OpId receive = server_->receive(to_client_, 5, room, MessageClass::kBulk);
  const OpId send = client_->send(to_server_, 5, memory, MessageClass::kBulk);
  for (int i = 0; i < 4; ++i) step();
  ASSERT_FALSE(server_->done(receive));
  (*server_)->cancel(receive);
  EXPECT_EQ(finish(*server_, receive), Errc::kCancelled);
  std::ranges::fill(room, std::byte{3});
  EXPECT_EQ(finish(*client_, send), Errc::kOk) << "dropped by the receiver";
  settle();
  EXPECT_BYTES(room, Bytes(room.size(), std::byte{3}));
}

TEST_F(ShmModuleTest, MessagesOfManyIdlePeersArrive) {
  std::vector<Instance*> clients;
  std::vector<Address> addresses;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(&start());
    addresses.push_back(clients.back()->lookup(url_));
    introduce(*clients.back(), addresses.back());
  }
  for (int i = 0; i < 500; ++i) server_->step();  // the server never sleeps, but no longer reads all links
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      clients[i]->request(addresses[i], i);
      ASSERT_TRUE(drive([&] { return !server_->arrived.empty(); })) << i;
      EXPECT_EQ(server_->arrived.front().tag, Tag(i));
      server_->arrived.clear();
    }
  }
}

TEST_F(ShmModuleTest, DescriptorsComeInOrderWithMessages) {
  const UniqueFd file(::memfd_create("passed", MFD_CLOEXEC));
  ASSERT_EQ(::pwrite(file.get(), "hello", 5, 0), 5);
  EXPECT_TRUE((*server_)->peer_info(to_client_).passes_descriptors) << "both sides have a socket";
  for (std::uint64_t tag = 1; tag <= 5; ++tag) {
    Bytes room(1);
    const OpId in = client_->receive(to_server_, tag, room);
    EXPECT_ERRC((*client_)->take_descriptor(to_server_, Tag(tag)), Errc::kNotFound);
    ASSERT_OK((*server_)->pass_descriptor(to_client_, Tag(tag), file.get()));
    server_->send(to_client_, tag, Bytes(1));
    ASSERT_EQ(finish(*client_, in), Errc::kOk);
    const auto passed = (*client_)->take_descriptor(to_server_, Tag(tag));
    ASSERT_OK(passed) << "there when the message is";
    std::array<char, 5> text{};
    EXPECT_EQ(::pread(passed->get(), text.data(), text.size(), 0), 5);
    EXPECT_EQ(std::string_view(text.data(), 5), "hello");
    EXPECT_EQ(::fcntl(passed->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_ERRC((*client_)->take_descriptor(to_server_, Tag(tag)), Errc::kNotFound) << "taken once";
  }
}

TEST_F(ShmModuleTest, DescriptorsThatAreNotTakenAreBounded) {
  const UniqueFd file(::memfd_create("passed", MFD_CLOEXEC));
  for (std::uint64_t i = 0; i < 200; ++i) {
    while ((*server_)->pass_descriptor(to_client_, Tag(1), file.get()).code() == Errc::kBusy) client_->step();
  }
  settle();
  EXPECT_EQ(client_->counters().dropped_descriptors, 200U - 64U);
  int taken = 0;
  while ((*client_)->take_descriptor(to_server_, Tag(1))) ++taken;
  EXPECT_EQ(taken, 64);
  EXPECT_ERRC((*server_)->pass_descriptor(to_client_, Tag(1), -1), Errc::kBadDescriptor);
  (*client_)->disconnect(to_server_);
  EXPECT_FALSE((*client_)->peer_info(to_server_).passes_descriptors) << "the connection has ended";
  EXPECT_ERRC((*client_)->pass_descriptor(to_server_, Tag(1), file.get()), Errc::kConnectionLost);
}

TEST_F(ShmModuleTest, PeerInfoNamesTheUserOfAPeerOnThisHost) {
  const PeerInfo info = (*server_)->peer_info(to_client_);
  EXPECT_TRUE(info.same_host) << "the peer is in this process";
  EXPECT_EQ(info.uid, ::geteuid());
  EXPECT_THAT(info.failed, testing::IsEmpty());
  const Address nobody = client_->lookup("shm://nobody-is-there");
  EXPECT_EQ(finish(*client_, client_->request(nobody, 1)), Errc::kUnreachable);
  const PeerInfo none = (*client_)->peer_info(nobody);
  ASSERT_EQ(none.failed.size(), 1U);
  EXPECT_NE(none.failed[0].reason.find("no server listens"), std::string::npos);
}

TEST_F(ShmModuleTest, ASocketInTheFileSystemGoesWithItsListener) {
  std::string folder = "/tmp/spate-shm-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  {
    Instance server(clock_, {});
    EXPECT_EQ(server.listen("shm://" + folder + "/s"), "shm://" + folder + "/s");
    EXPECT_EQ(::access((folder + "/s").c_str(), F_OK), 0);
  }
  EXPECT_NE(::access((folder + "/s").c_str(), F_OK), 0);
  EXPECT_EQ(::rmdir(folder.c_str()), 0);
}

TEST_F(ShmModuleTest, PollsBeforeItSleepsIfConfigured) {
  ShmOptions options;
  options.spin = std::chrono::microseconds(50);
  Instance& spinning = start(std::move(options));
  spinning.request(spinning.lookup(url_), 1);
  ASSERT_TRUE(drive([&] { return !server_->arrived.empty(); }));
  for (int i = 0; i < 100; ++i) spinning.step();
  EXPECT_FALSE(spinning->prepare_to_wait(spinning.context())) << "the time to poll begins";
  clock_.advance(std::chrono::microseconds(49));
  EXPECT_FALSE(spinning->prepare_to_wait(spinning.context())) << "one microsecond of the time to poll is left";
  clock_.advance(std::chrono::microseconds(1));
  EXPECT_TRUE(spinning->prepare_to_wait(spinning.context())) << "the time to poll is over";
}

}  // namespace
}  // namespace spate::bmi::shm
