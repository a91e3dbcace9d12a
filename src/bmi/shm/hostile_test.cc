// SPDX-License-Identifier: Apache-2.0
// Peers that break the protocol. Each one loses its connection, and nobody else is affected.
#include <fcntl.h>
#include <sys/mman.h>

#include "base/codec.h"
#include "base/expect.h"
#include "base/random.h"
#include "bmi/shm/module_fixture.h"

namespace spate::bmi::shm {
namespace {

class Hostile : public ModuleTest {
 protected:
  /// Checks that the server has dropped the peer and serves others.
  void expect_dropped(RawPeer& peer) {
    EXPECT_TRUE(drive([&] { return peer.closed(); }));
    EXPECT_EQ(server_->counters().protocol_errors, 1U);
    expect_serves();
  }
  void expect_serves() {
    Instance& client = start();
    const Address to_server = client.lookup(url_);
    const Address to_client = introduce(client, to_server);
    const Bytes data(200'000, std::byte{5});
    Bytes room(data.size());
    const OpId in = server_->receive(to_client, 1, room);
    client.send(to_server, 1, data);
    EXPECT_EQ(finish(*server_, in), Errc::kOk);
    EXPECT_EQ(room, data);
  }
};

FrameHeader bulk(FrameHeader header) {
  header.message_class = MessageClass::kBulk;
  return header;
}

FrameHeader located(FrameHeader header) {
  header.flags = kFlagLocated;
  return header;
}

Bytes extent_bytes(const Extent& extent) {
  Bytes bytes;
  Encoder out(bytes);
  out.u32(extent.arena);
  out.u32(0);
  out.u64(extent.offset);
  out.u64(extent.size);
  return bytes;
}

struct BadFrame {
  const char* name;
  FrameHeader header;
  Bytes payload;
  MessageClass lane;
};

std::vector<BadFrame> bad_frames() {
  const MessageClass control = MessageClass::kControl;
  const MessageClass on_bulk = MessageClass::kBulk;
  const Bytes some(10);
  return {
      {"more, with nothing begun", frame(FrameType::kMore), some, control},
      {"abort, with nothing begun", frame(FrameType::kAbort), {}, control},
      {"more payload than the message has", frame(FrameType::kEager, 1, 5), some, control},
      {"an unexpected message that is too long", frame(FrameType::kUnexpected, 1, 300 * 1024), some, control},
      {"an unexpected message of the bulk class", bulk(frame(FrameType::kUnexpected, 1, 10)), some, on_bulk},
      {"a message beyond the window", bulk(frame(FrameType::kEager, 1, std::uint64_t{1} << 40U)), some, on_bulk},
      {"a message of 2^64 - 1 bytes", frame(FrameType::kEager, 1, ~std::uint64_t{0}), some, control},
      {"a class on the wrong lane", bulk(frame(FrameType::kEager, 1, 10)), some, control},
      {"clear of what was not announced", frame(FrameType::kClear, 1, 0, 77), {}, control},
      {"clear on the bulk lane", bulk(frame(FrameType::kClear)), {}, on_bulk},
      {"taken, and nothing was offered", frame(FrameType::kTaken, 0, 0, 77), {}, control},
      {"withdrawn, and nothing was", frame(FrameType::kWithdrawn, 0, 0, 77), {}, control},
      {"announced with a payload", frame(FrameType::kAnnounce, 1, 10), some, control},
      {"announced with 2^63 bytes", frame(FrameType::kAnnounce, 1, std::uint64_t{1} << 63U), {}, control},
      {"a payload where none belongs", frame(FrameType::kWithdraw, 1), some, control},
      {"located in an arena that was never shown", located(frame(FrameType::kAnnounce, 1, 100)),
       extent_bytes({0, 0, 100}), control},
      {"located with half an extent", located(frame(FrameType::kAnnounce, 1, 100)), some, control},
      {"located nowhere", located(frame(FrameType::kAnnounce, 1, 100)), {}, control},
  };
}

TEST_F(Hostile, FramesThatTheProtocolDoesNotAllow) {
  for (const BadFrame& bad : bad_frames()) {
    SCOPED_TRACE(bad.name);
    make({});
    RawPeer peer(url_);
    handshake(peer);
    peer.write(bad.header, bad.payload, bad.lane);
    expect_dropped(peer);
  }
}

TEST_F(Hostile, ABeginningWithinAMessage) {
  RawPeer peer(url_);
  handshake(peer);
  peer.write(frame(FrameType::kEager, 1, 100), Bytes(10));
  peer.write(frame(FrameType::kEager, 1, 100), Bytes(10));
  expect_dropped(peer);
}

TEST_F(Hostile, MoreThanTheMessageHasInASecondPiece) {
  RawPeer peer(url_);
  handshake(peer);
  peer.write(frame(FrameType::kEager, 1, 100), Bytes(90));
  peer.write(frame(FrameType::kMore), Bytes(11));
  expect_dropped(peer);
}

TEST_F(Hostile, MoreThanTheWindowInManyMessages) {
  RawPeer peer(url_);
  const Welcome welcome = handshake(peer);
  // Nobody takes the messages. An honest peer would announce the last one.
  const std::uint64_t cost = cost_of(30'000);
  for (std::uint64_t sent = 0; sent <= welcome.limits.window; sent += cost) {
    ASSERT_TRUE(drive([&] { return peer.link().out(MessageClass::kBulk).has_room(30'000) || peer.closed(); }));
    if (!peer.closed()) peer.write(bulk(frame(FrameType::kEager, 1, 30'000)), Bytes(30'000));
  }
  expect_dropped(peer);
}

TEST_F(Hostile, MoreAnnouncementsThanAllowedDropThePeer) {
  ShmOptions options;
  options.max_announced = 10;
  make(std::move(options));
  RawPeer peer(url_);
  handshake(peer);
  for (std::uint64_t i = 0; i < 11; ++i) peer.write(frame(FrameType::kAnnounce, 1, 1000, i));
  expect_dropped(peer);
}

TEST_F(Hostile, DataOfAnotherLengthThanAnnounced) {
  RawPeer peer(url_);
  handshake(peer);
  Bytes room(1000);
  const OpId in = server_->receive(introduce(peer), 1, room);
  peer.write(frame(FrameType::kAnnounce, 1, 500, 3));
  std::optional<Frame> clear;
  ASSERT_TRUE(drive([&] { return (clear = peer.next(MessageClass::kControl)).has_value(); }));
  EXPECT_EQ(clear->header.type, FrameType::kClear);
  peer.write(frame(FrameType::kData, 0, 501, clear->header.tag), Bytes(10));
  EXPECT_EQ(finish(*server_, in), Errc::kConnectionLost);
  expect_dropped(peer);
}

// A sender that has closed its end may use its memory again. Bytes that the receiver copies afterwards belong to no
// message.
TEST_F(Hostile, ASenderThatClosedWhileItsMemoryWasRead) {
  constexpr std::uint64_t kSize = 900'000;  // several turns
  const UniqueFd arena = make_memory("arena", 1 << 20).value();
  for (const bool closes : {false, true}) {
    RawPeer peer(url_);
    handshake(peer);
    const Address address = introduce(peer);
    Bytes room(kSize);
    const OpId in = server_->receive(address, 7, room, MessageClass::kBulk);
    peer.say(Note{Note::Kind::kArena, 0, 1 << 20}, arena.get());
    Bytes extent;
    Encoder out(extent);
    for (const std::uint64_t word : {std::uint64_t{0}, std::uint64_t{0}, kSize}) out.u64(word);
    FrameHeader header = frame(FrameType::kAnnounce, 7, kSize, 1);
    header.message_class = MessageClass::kBulk;
    header.flags = kFlagLocated;
    peer.write(header, extent);
    step();
    step();
    EXPECT_FALSE(server_->done(in));
    if (closes) peer.link().mine().closed.store(1);
    EXPECT_EQ(finish(*server_, in), closes ? Errc::kConnectionLost : Errc::kOk);
  }
}

TEST_F(Hostile, CountersThatMakeNoSense) {
  RawPeer peer(url_);
  handshake(peer);
  const Address address = introduce(peer);
  peer.link().mine().slots_taken[0] = 1'000'000;
  const Bytes data(100);
  std::vector<OpId> sends;
  // The counter is read after the lane was filled.
  for (int i = 0; i < 300; ++i) {
    const auto posted =
        (*server_)->post_send(server_->message(address, 1, {}, MessageClass::kControl), server_->context(), nullptr);
    if (!posted) break;
    sends.push_back(server_->noted(posted));
    step();
  }
  for (const OpId op : sends) EXPECT_NE(finish(*server_, op), Errc::kTimeout);
  expect_dropped(peer);
}

TEST_F(Hostile, CreditOutOfNowhere) {
  RawPeer peer(url_);
  handshake(peer);
  const Address address = introduce(peer);
  peer.link().mine().returned[0] = ~std::uint64_t{0};
  const Bytes data(10'000);
  for (int i = 0; i < 300; ++i) {
    const auto posted = (*server_)->post_send_unexpected(
        server_->message(address, 1, std::array{Segment::of(ByteView(data))}, MessageClass::kControl),
        server_->context(), nullptr);
    if (!posted) break;
    (void)server_->noted(posted);
    (void)peer.next(MessageClass::kControl);
    step();
  }
  expect_dropped(peer);
}

TEST_F(Hostile, NotesThatMakeNoSense) {
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    make({});
    RawPeer peer(url_);
    handshake(peer);
    UniqueFd soft(::memfd_create("soft", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(soft.get(), 8192), 0);
    if (i == 0) peer.say(Bytes(3));
    if (i == 1) peer.say(Bytes(kMaxPacket));
    if (i == 2) peer.say(Note{Note::Kind::kArena, 0, 8192}, soft.get());  // memory that its owner could shrink later
    if (i == 3) peer.say(Note{Note::Kind::kArena, 7, 8192}, soft.get());
    expect_dropped(peer);
  }
}

TEST_F(Hostile, UnrequestedDescriptorsAreClosed) {
  RawPeer peer(url_);
  handshake(peer);
  for (int i = 0; i < 100; ++i) peer.say(Note{Note::Kind::kDescriptor, 0, 1}, peer.memory_descriptor());
  ASSERT_TRUE(drive([&] { return server_->counters().dropped_descriptors == 100; }));
  EXPECT_ERRC((*server_)->take_descriptor(introduce(peer), Tag(1)), Errc::kNotFound);
}

TEST_F(Hostile, InvalidHellosAreRefused) {
  RawPeer garbage(url_);
  garbage.say(Bytes(kHelloSize));
  EXPECT_TRUE(drive([&] { return garbage.closed(); }));
  RawPeer without_bell(url_);
  without_bell.say(encode(RawPeer::hello()));
  EXPECT_TRUE(drive([&] { return without_bell.closed(); }));
  RawPeer from_tomorrow(url_);
  Hello hello = RawPeer::hello();
  hello.versions.min = hello.versions.max = 9;
  EXPECT_EQ(handshake(from_tomorrow, hello).status, Errc::kVersionMismatch);
  EXPECT_TRUE(drive([&] { return from_tomorrow.closed(); }));
  EXPECT_EQ(server_->counters().refused, 3U);
  expect_serves();
}

TEST_F(Hostile, ASilentPeerIsDroppedAndFreesItsPlace) {
  NetworkOptions options;
  options.unauthenticated.most = 3;
  make({}, options);
  std::vector<std::unique_ptr<RawPeer>> silent;
  for (int i = 0; i < 5; ++i) {
    silent.push_back(std::make_unique<RawPeer>(url_));
    settle();
    EXPECT_FALSE(silent.back()->closed()) << "the newest is kept";
  }
  const auto closed = [&] { return std::ranges::count_if(silent, [](const auto& peer) { return peer->closed(); }); };
  EXPECT_EQ(closed(), 2);
  expect_serves();
  clock_.advance(std::chrono::seconds(4));
  EXPECT_TRUE(drive([&] { return closed() == 5; }));
}

// Writes random words all over the segment while the server works on it. The process must survive, other peers must be
// served, and nothing may be written outside.
TEST_F(Hostile, ScribblesAllOverTheSegment) {
  SeededRandom random(7);
  NetworkOptions with_unauthenticated_peers;
  with_unauthenticated_peers.unauthenticated.deadline_ms = 5000;
  for (int round = 0; round < 80; ++round) {
    SCOPED_TRACE(round);
    if (round == 40) make({}, with_unauthenticated_peers);
    RawPeer peer(url_);
    handshake(peer);
    const Address address = introduce(peer);
    Bytes room(100'000);
    std::vector<OpId> ops;
    for (std::uint64_t i = 0; i < 8; ++i) {
      const auto c = static_cast<MessageClass>(i % 2);
      ops.push_back(server_->receive(address, i, room, c));
      ops.push_back(server_->send(address, i, room, c));
    }
    for (int step_number = 0; step_number < 40 && !peer.closed(); ++step_number) {
      constexpr std::uint64_t kHead = 4096;
      for (int i = 0; i < 30; ++i) {
        std::uint64_t value = random.chance(1, 2) ? random.next() : random.below(1000);
        // Frames that are correct up to the sequence number.
        const auto c = static_cast<MessageClass>(random.below(2));
        const bool narrow = peer.link().narrow_out(c);
        const Geometry& geometry = narrow ? kNarrow : peer.geometry();
        const LanePlace place = (narrow ? lane_place : full_lane_place)(geometry, Side::kConnector, c);
        MutableByteView area = narrow ? peer.memory() : peer.full_lanes();
        const std::uint64_t slot = peer.link().out(c).frames() + random.below(3);
        const bool likely = random.chance(1, 2);
        if (!likely && random.chance(1, 4)) area = peer.memory().first(kHead);
        std::uint64_t at = random.below(area.size() / 8) * 8;
        if (likely) {
          at = place.slots + slot % geometry.lanes[index_of(c)].slots * kSlotSize;
          value = (slot + 1) & 0xFFFFFFFFU;
          value |= (1 + random.below(13)) << 32U | random.below(2) << 40U | random.below(4) << 48U;
        }
        std::memcpy(&area[at], &value, sizeof value);
      }
      if (!peer.closed()) (void)peer.link().send_note(Note{}, -1);
      step();
    }
    (*server_)->disconnect(address);
    for (const OpId op : ops) EXPECT_NE(finish(*server_, op), Errc::kTimeout);
  }
  expect_serves();
}

// --- servers that break the protocol ---

class HostileServer : public ModuleTest {
 protected:
  void SetUp() override {
    endpoint_ = named(Endpoint{true, "*"}, random_);
    listener_ = listen_on(endpoint_, true).value();
    client_ = &start();
    to_server_ = client_->lookup(url_of(endpoint_));
    request_ = client_->request(to_server_, 1, some_);
    socket_.reset(::accept(listener_.get(), nullptr, nullptr));
    ASSERT_TRUE(socket_) << "the client does not connect";
  }
  void expect_refused(const std::string& word) {
    EXPECT_EQ(finish(*client_, request_), Errc::kUnreachable);
    const PeerInfo info = (*client_)->peer_info(to_server_);
    ASSERT_EQ(info.failed.size(), 1U);
    EXPECT_EQ(info.failed[0].url, url_of(endpoint_));
    EXPECT_NE(info.failed[0].reason.find(word), std::string::npos) << info.failed[0].reason;
  }

  SystemRandom random_;
  Endpoint endpoint_;
  UniqueFd listener_;
  UniqueFd socket_;
  Instance* client_ = nullptr;
  Address to_server_;
  const Bytes some_ = Bytes(10);
  OpId request_;
};

TEST_F(HostileServer, ASegmentThatCouldBeCutOff) {
  const Welcome welcome;
  const UniqueFd soft(::memfd_create("soft", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(soft.get(), static_cast<off_t>(segment_size(welcome.geometry))), 0);
  ASSERT_EQ(send_packet(socket_.get(), encode(welcome), std::array{soft.get(), listener_.get()}), 0);
  expect_refused("shrink");
}

TEST_F(HostileServer, ASegmentThatIsTooSmall) {
  const UniqueFd small = make_memory("small", 8192).value();
  ASSERT_EQ(send_packet(socket_.get(), encode(Welcome{}), std::array{small.get(), listener_.get()}), 0);
  expect_refused("too small");
}

TEST_F(HostileServer, AServerOfVersion1HasFullLanesOnly) {
  Link link(std::move(socket_), Side::kAcceptor);
  Welcome welcome;
  welcome.version = 1;
  welcome.limits = {1 << 20, 1 << 18, 100};
  const UniqueFd memory = link.make_segment(welcome.geometry, welcome.version).value();
  ASSERT_EQ(send_packet(link.socket(), encode(welcome), std::array{memory.get(), link.own_bell()}), 0);
  EXPECT_EQ(finish(*client_, request_), Errc::kOk);
  Frame seen;
  EXPECT_EQ(link.in(MessageClass::kControl).look(seen), LaneReader::Look::kFrame);
  EXPECT_EQ(seen.header.type, FrameType::kUnexpected);
}

TEST_F(HostileServer, AnInvalidWelcomeAndOneWithoutSharedMemoryAreRefused) {
  ASSERT_EQ(send_packet(socket_.get(), Bytes(kWelcomeSize), {}), 0);
  expect_refused("no spate server");
  Bytes some(10);
  request_ = client_->request(to_server_, 1, some);
  socket_.reset(::accept(listener_.get(), nullptr, nullptr));
  ASSERT_EQ(send_packet(socket_.get(), encode(Welcome{}), {}), 0);
  expect_refused("without shared memory");
}

TEST_F(HostileServer, AServerThatDoesNotAnswerTheHelloIsGivenUp) {
  settle();
  clock_.advance(std::chrono::seconds(4));
  expect_refused("timeout");
}

}  // namespace
}  // namespace spate::bmi::shm
