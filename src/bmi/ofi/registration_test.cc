// SPDX-License-Identifier: Apache-2.0
// Registered memory in successive transfers, over libfabric's tcp provider or over the RDMA device whose address is in
// SPATE_TEST_VERBS (tests/vm). A registration that the cache finds is never stale.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/expect.h"
#include "bmi/network.h"
#include "bmi/ofi/ofi_module.h"

#ifndef __has_feature  // g++
#define __has_feature(x) 0
#endif

namespace spate::bmi::ofi {
namespace {

constexpr std::size_t kSize = 1 << 20;

std::string listen_url() {
  const char* const rdma = std::getenv("SPATE_TEST_VERBS");
  return rdma == nullptr ? "ofi+tcp://127.0.0.1:0" : "ofi+verbs://" + std::string(rdma) + ":0";
}

struct End {
  OfiModule* module = nullptr;
  std::unique_ptr<Network> network;
  ContextId context;
};

struct RegistrationTest : testing::Test {
  void SetUp() override {
    if (__has_feature(thread_sanitizer)) GTEST_SKIP() << "ThreadSanitizer knows nothing of the locks inside libfabric";
    make(server);
    make(client);
    const Result<std::string> url = server.network->listen(listen_url(), server.context);
    ASSERT_OK(url);
    const std::array<std::string, 1> urls{*url};
    to_server = *client.network->lookup(urls);
    introduce();
  }
  /// Makes the client known to the server, or known again.
  void introduce() {
    const std::array<Segment, 1> nothing{};
    ASSERT_OK(client.network->post_send_unexpected({.peer = to_server, .tag = Tag(1), .segments = nothing},
                                                   client.context, nullptr));
    std::array<UnexpectedMessage, 1> message;
    for (std::size_t n = 0; n == 0;) {
      n = server.network->test_unexpected(server.context, message);
      step();
    }
    to_client = message[0].peer;
  }
  void make(End& end) {
    auto module = make_ofi_module(clock);
    end.module = module.get();
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(std::move(module));
    end.network = make_network(std::move(modules), options);
    end.context = end.network->open_context();
  }
  void step() {
    client_done += test(client);
    server_done += test(server);
  }
  /// Counts completions of posts that have no counter.
  static std::size_t test(End& end) {
    std::array<Completion, 8> done;
    const std::size_t n = end.network->test_context(end.context, done);
    std::size_t plain = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (done[i].user == nullptr) ++plain;
      if (done[i].user != nullptr) --*static_cast<int*>(done[i].user);
    }
    return plain;
  }
  static MutableByteView map(void* at) {
    const int fixed = at == nullptr ? 0 : MAP_FIXED;
    void* p = ::mmap(at, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    EXPECT_NE(p, MAP_FAILED);
    return {static_cast<std::byte*>(p), kSize};
  }
  /// Sends the client's memory, filled with `value`, and checks that it arrives at the server.
  void transfer(MutableByteView memory, int value) {
    std::memset(memory.data(), value, memory.size());
    Bytes room(memory.size());
    const std::array<Segment, 1> to{Segment::of(MutableByteView(room))};
    const std::array<Segment, 1> from{Segment::of(memory)};
    client_done = server_done = 0;
    const auto in = server.network->post_recv({to_client, Tag(2), MessageClass::kBulk, to}, server.context, nullptr);
    const auto out = client.network->post_send({to_server, Tag(2), MessageClass::kBulk, from}, client.context, nullptr);
    ASSERT_OK(in);
    ASSERT_OK(out);
    ASSERT_FALSE(out->done) << "a large message needs its memory registered";
    while (client_done == 0 || server_done == 0) {
      go_on();
      step();
    }
    ASSERT_EQ(room, Bytes(memory.size(), static_cast<std::byte>(value)));
  }
  /// Work that goes on during a transfer.
  virtual void go_on() {}
  PinCounters pins() const { return client.module->pin_counters(); }

  SystemClock clock;
  NetworkOptions options;
  End server;
  End client;
  Address to_server;
  Address to_client;
  std::size_t client_done = 0;
  std::size_t server_done = 0;
};

TEST_F(RegistrationTest, SmallMessagesLeaveInTheirPost) {
  Bytes data(100, std::byte{5});
  Bytes room(data.size());
  const std::array<Segment, 2> from{Segment::of(MutableByteView(data).first(30)),
                                    Segment::of(MutableByteView(data).subspan(30))};
  const std::array<Segment, 1> to{Segment::of(MutableByteView(room))};
  client_done = server_done = 0;
  ASSERT_OK(server.network->post_recv({to_client, Tag(2), MessageClass::kControl, to}, server.context, nullptr));
  const std::uint64_t before = client.module->counters().sent_at_once;
  const auto out =
      client.network->post_send({to_server, Tag(2), MessageClass::kControl, from}, client.context, nullptr);
  ASSERT_OK(out);
  ASSERT_TRUE(out->done) << "a small message leaves in its post";
  EXPECT_EQ(client.module->counters().sent_at_once, before + 1);
  while (server_done == 0) step();
  EXPECT_EQ(room, data);
}

// Bulk data does not use all packets that may be in flight, so control messages find some. Nobody tests in the
// meantime, so that no packet ends.
TEST_F(RegistrationTest, AControlMessageFindsRoomBesideBulkData) {
  Bytes data(1000);
  const std::array<Segment, 1> segments{Segment::of(MutableByteView(data))};
  client_done = server_done = 0;
  std::size_t open = 0;
  for (int i = 0; i < 40; ++i) {
    Message message{to_server, Tag(9), MessageClass::kBulk, segments};
    message.receiver_ready = true;  // nobody receives it
    const auto posted = client.network->post_send(message, client.context, nullptr);
    ASSERT_OK(posted);
    if (!posted->done) ++open;
  }
  EXPECT_GT(open, 0U) << "there was room for all of them";
  const auto control =
      client.network->post_send({to_server, Tag(2), MessageClass::kControl, segments}, client.context, nullptr);
  ASSERT_OK(control);
  EXPECT_TRUE(control->done) << "bulk data have taken all room";
  while (client_done < open) step();
}

TEST_F(RegistrationTest, TheSecondTransferHitsTheCacheWherePagesCanBeWatched) {
  const MutableByteView memory = map(nullptr);
  transfer(memory, 1);
  EXPECT_EQ(pins().misses, 1U);
  EXPECT_GE(server.module->counters().read_bytes, kSize) << "it went in packets";
  transfer(memory, 2);
  const PinCounters after = pins();
  const bool watched = after.pinned_bytes > after.unpinned_bytes;
  EXPECT_EQ(after.hits, watched ? 1U : 0U);
  ::munmap(memory.data(), kSize);
}

struct CopyLimitTest : RegistrationTest {
  static constexpr std::size_t kLimit = kSize / 4;
  CopyLimitTest() { options.copy_limit_bytes = kLimit; }
};

TEST_F(CopyLimitTest, MessagesUpToTheLimitAreCopiedAndLargerOnesAreRegistered) {
  const MutableByteView memory = map(nullptr);
  transfer(memory.first(kLimit), 1);
  EXPECT_EQ(pins().misses, 0U);
  EXPECT_EQ(server.module->counters().read_bytes, 0U);
  EXPECT_EQ(client.module->counters().copied_below_limit, 1U);
  transfer(memory.first(kLimit + 1), 2);
  EXPECT_EQ(pins().misses, 1U);
  EXPECT_EQ(server.module->counters().read_bytes, kLimit + 1);
  EXPECT_EQ(client.module->counters().copied_below_limit, 1U);
  ::munmap(memory.data(), kSize);
}

TEST_F(CopyLimitTest, RegisteredMemoryIsNotCopied) {
  const MutableByteView memory = client.network->mem_alloc(kSize);
  transfer(memory.first(kLimit), 1);
  EXPECT_EQ(server.module->counters().read_bytes, kLimit);
  EXPECT_EQ(client.module->counters().copied_below_limit, 0U);
  client.network->mem_free(memory);
}

TEST_F(RegistrationTest, NewPagesAtTheSameAddressAreRegisteredAgain) {
  const MutableByteView memory = map(nullptr);
  transfer(memory, 1);
  for (int i = 2; i < 6; ++i) {
    ASSERT_EQ(::munmap(memory.data(), kSize), 0);
    ASSERT_EQ(map(memory.data()).data(), memory.data());
    transfer(memory, i);
  }
  const PinCounters after = pins();
  EXPECT_EQ(after.hits, 0U);
  EXPECT_EQ(after.misses, 5U);
  ::munmap(memory.data(), kSize);
}

// A sender that leaves deregisters its memory, so that the rest of a read has a wrong key. On a device this ends the
// connection for good.
TEST_F(RegistrationTest, AReadWithAWrongKeyCostsTheSessionAndTheNextOneWorks) {
  if (std::getenv("SPATE_TEST_VERBS") == nullptr)
    GTEST_SKIP() << "tcp looks at no keys: needs an RDMA device (test-long vm)";
  const auto reopened = [&] {
    return client.module->counters().endpoints_reopened + server.module->counters().endpoints_reopened;
  };
  Bytes memory(16 * kSize);
  for (int i = 0; i < 30 && reopened() == 0; ++i) {
    Bytes room(memory.size());
    const std::array<Segment, 1> from{Segment::of(MutableByteView(memory))};
    const std::array<Segment, 1> to{Segment::of(MutableByteView(room))};
    client_done = server_done = 0;
    const auto before = server.module->counters().read_bytes;
    ASSERT_OK(server.network->post_recv({to_client, Tag(2), MessageClass::kBulk, to}, server.context, nullptr));
    ASSERT_OK(client.network->post_send({to_server, Tag(2), MessageClass::kBulk, from}, client.context, nullptr));
    while (server.module->counters().read_bytes == before) step();
    client.network->disconnect(to_server);
    while (client_done == 0 || server_done == 0) step();
    introduce();
    const MutableByteView other = map(nullptr);
    transfer(other, 1 + i);
    ::munmap(other.data(), kSize);
  }
  EXPECT_GT(reopened(), 0U) << "no read met a wrong key";
}

// Over verbs, libfabric 1.17 ends a process that closes its endpoint before it has polled everything that arrived.
TEST_F(RegistrationTest, APeerCanLeaveWhileManyMessagesArrive) {
  Bytes data(8000);
  const std::array<Segment, 1> from{Segment::of(MutableByteView(data))};
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 20; ++i) {
      Message message{to_client, Tag(9), MessageClass::kBulk, from};
      message.receiver_ready = true;  // nobody receives it
      ASSERT_OK(server.network->post_send(message, server.context, nullptr));
    }
    std::array<Completion, 8> done;
    for (int i = 0; i < 100; ++i) (void)server.network->test_context(server.context, done);
    const std::array<std::string, 1> urls{client.network->peer_info(to_server).url};
    client.network.reset();
    make(client);
    to_server = *client.network->lookup(urls);
    introduce();
  }
  const MutableByteView memory = map(nullptr);
  transfer(memory, 3);
  ::munmap(memory.data(), kSize);
}

TEST_F(RegistrationTest, AForkBetweenTransfersChangesNothing) {
  const MutableByteView memory = map(nullptr);
  for (int i = 1; i < 5; ++i) {
    transfer(memory, i);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::memset(memory.data(), 0x77, memory.size());  // the child's copy of the page
      ::_exit(0);
    }
    transfer(memory, 0x40 + i);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
  }
  ::munmap(memory.data(), kSize);
}

/// Large messages go both ways all the time.
struct RegistrationUnderLoadTest : RegistrationTest {
  struct Stream {
    Bytes from = Bytes(kSize / 2);
    Bytes to = Bytes(kSize / 2);
    int open = 0;
    int sent = 0;
  };
  void go_on() override {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      Stream& stream = streams[i];
      if (stream.open > 0) continue;
      ++stream.sent;
      const bool forth = i % 2 == 0;
      post(forth ? client : server, forth ? to_server : to_client, Tag(100 + i), stream.from, stream.open, false);
      post(forth ? server : client, forth ? to_client : to_server, Tag(100 + i), stream.to, stream.open, true);
    }
  }
  static void post(End& end, Address peer, Tag tag, MutableByteView memory, int& open, bool receive) {
    const std::array<Segment, 1> segments{Segment::of(memory)};
    const Message message{peer, tag, MessageClass::kBulk, segments};
    const auto posted = receive ? end.network->post_recv(message, end.context, &open)
                                : end.network->post_send(message, end.context, &open);
    ASSERT_OK(posted);
    if (!posted->done) ++open;
  }
  void end_streams() {
    for (Stream& stream : streams) {
      while (stream.open > 0) step();
    }
  }
  std::array<Stream, 4> streams;
};

// One buffer gets other pages at the same address, in every way that the kernel offers. A child process writes to its
// own copy of them.
TEST_F(RegistrationUnderLoadTest, OtherContentsAtTheSameAddressArriveAndForksChangeNothing) {
  const MutableByteView memory = map(nullptr);
  const MutableByteView elsewhere = map(nullptr);
  transfer(memory, 1);
  const std::uint64_t misses = pins().misses;
  constexpr int kRounds = 6;
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_EQ(::munmap(memory.data(), kSize), 0);
    ASSERT_EQ(map(memory.data()).data(), memory.data());
    transfer(memory, 10 + i);
    ASSERT_EQ(::mremap(memory.data(), kSize, kSize, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere.data()), elsewhere.data());
    ASSERT_EQ(map(memory.data()).data(), memory.data());
    transfer(memory, 30 + i);
    ASSERT_EQ(::madvise(memory.data(), kSize, MADV_DONTNEED), 0);
    transfer(memory, 50 + i);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::memset(memory.data(), 0x77, memory.size());
      ::_exit(0);
    }
    transfer(memory, 70 + i);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
  }
  end_streams();
  EXPECT_GE(pins().misses - misses, 3U * kRounds);
  for (const Stream& stream : streams) EXPECT_GT(stream.sent, 1);
  ::munmap(memory.data(), kSize);
  ::munmap(elsewhere.data(), kSize);
}

TEST_F(RegistrationTest, AllocatedMemoryIsRegisteredOnce) {
  const MutableByteView memory = client.network->mem_alloc(kSize);
  const std::uint64_t misses = pins().misses;
  transfer(memory, 1);
  transfer(memory, 2);
  EXPECT_EQ(pins().misses, misses);
  EXPECT_EQ(pins().hits, 2U);
  client.network->mem_free(memory);
  EXPECT_EQ(pins().pinned_bytes, pins().unpinned_bytes);
}

}  // namespace
}  // namespace spate::bmi::ofi
