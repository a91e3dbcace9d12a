// SPDX-License-Identifier: Apache-2.0
// Expected messages: sizes, tags, order, pieces, truncation.
#include <array>

#include "base/expect_bytes.h"
#include "tests/bmi/harness.h"

namespace spate::bmi::conformance {
namespace {

constexpr std::size_t kSizes[] = {0, 1, 7, 100, 4096, 16 * 1024, 16 * 1024 + 1, 100'000, 1 << 20, 5 * 1024 * 1024 + 3};

TEST_P(Bmi, RoundTripOfEverySize) {
  const Pair pair = start_pair();
  std::uint64_t tag = 1;
  for (const std::size_t size : kSizes) {
    SCOPED_TRACE(size);
    for (const MessageClass message_class : {MessageClass::kControl, MessageClass::kBulk}) {
      expect_passes(pair, tag++, size, true, message_class);
      expect_passes(pair, tag++, size, false, message_class);
    }
  }
}

TEST_P(Bmi, SendsAndReceivesMeetInEitherOrder) {
  const Pair pair = start_pair();
  for (const std::size_t size : kSizes) {
    SCOPED_TRACE(size);
    const Bytes data = pattern(3, size, size);
    Bytes room(size);
    const OpId early_send = send(*pair.client, {pair.to_server, 3}, data);
    settle();
    const OpId late_recv = recv(*pair.server, {pair.to_client, 3}, room);
    EXPECT_EQ(finish(*pair.server, late_recv).actual_size, size);
    EXPECT_EQ(finish(*pair.client, early_send).status, Errc::kOk);
    EXPECT_EQ(first_difference(room, 3, size), std::nullopt);

    std::fill(room.begin(), room.end(), std::byte{0});
    const OpId early_recv = recv(*pair.server, {pair.to_client, 4}, room);
    settle();
    const Bytes again = pattern(4, size, size);
    const OpId late_send = send(*pair.client, {pair.to_server, 4}, again);
    EXPECT_EQ(finish(*pair.server, early_recv).status, Errc::kOk);
    EXPECT_EQ(finish(*pair.client, late_send).actual_size, size);
    EXPECT_EQ(first_difference(room, 4, size), std::nullopt);
  }
}

TEST_P(Bmi, TagsAreMatchedOutOfOrder) {
  const Pair pair = start_pair();
  constexpr std::uint64_t kTags = 40;
  std::vector<Bytes> data;
  std::vector<OpId> sends;
  for (std::uint64_t tag = 1; tag <= kTags; ++tag) {
    data.push_back(pattern(tag, 0, tag % 4 == 0 ? 60'000 : tag * 10));
    sends.push_back(send(*pair.client, {pair.to_server, tag}, data.back()));
  }
  settle();
  std::vector<Bytes> rooms(kTags);
  std::vector<OpId> receives;
  for (std::uint64_t tag = kTags; tag >= 1; --tag) {
    rooms[tag - 1].resize(data[tag - 1].size());
    receives.push_back(recv(*pair.server, {pair.to_client, tag}, rooms[tag - 1]));
  }
  for (const OpId op : receives) EXPECT_EQ(finish(*pair.server, op).status, Errc::kOk);
  for (const OpId op : sends) EXPECT_EQ(finish(*pair.client, op).status, Errc::kOk);
  for (std::uint64_t tag = 1; tag <= kTags; ++tag)
    EXPECT_EQ(first_difference(rooms[tag - 1], tag, 0), std::nullopt) << tag;
}

// A small message must not overtake a large one that is still being announced.
TEST_P(Bmi, OrderIsKeptPerTagWhateverTheSizes) {
  const Pair pair = start_pair();
  constexpr std::size_t kCount = 60;
  std::vector<Bytes> data;
  std::vector<Bytes> rooms(kCount);
  std::vector<OpId> sends;
  std::vector<OpId> receives;
  for (std::size_t i = 0; i < kCount; ++i) {
    data.push_back(pattern(9, i, i % 3 == 0 ? 50'000 + i : 20 + i));
    rooms[i].resize(64 * 1024);
  }
  for (std::size_t i = 0; i < kCount / 2; ++i) receives.push_back(recv(*pair.server, {pair.to_client, 9}, rooms[i]));
  for (std::size_t i = 0; i < kCount; ++i) sends.push_back(send(*pair.client, {pair.to_server, 9}, data[i]));
  settle();
  for (std::size_t i = kCount / 2; i < kCount; ++i)
    receives.push_back(recv(*pair.server, {pair.to_client, 9}, rooms[i]));
  for (std::size_t i = 0; i < kCount; ++i) {
    const Completion c = finish(*pair.server, receives[i]);
    EXPECT_EQ(c.status, Errc::kOk);
    ASSERT_EQ(c.actual_size, data[i].size()) << "message " << i;
    EXPECT_EQ(first_difference({rooms[i].data(), data[i].size()}, 9, i), std::nullopt) << "message " << i;
  }
  for (const OpId op : sends) EXPECT_EQ(finish(*pair.client, op).status, Errc::kOk);
}

TEST_P(Bmi, ClassesAreMatchedApart) {
  const Pair pair = start_pair();
  const Bytes control = pattern(1, 1, 500);
  const Bytes bulk = pattern(1, 2, 700);
  Bytes control_room(1000);
  Bytes bulk_room(1000);
  const OpId bulk_in = recv(*pair.server, {pair.to_client, 1, MessageClass::kBulk}, bulk_room);
  const OpId control_in = recv(*pair.server, {pair.to_client, 1, MessageClass::kControl}, control_room);
  const OpId control_out = send(*pair.client, {pair.to_server, 1, MessageClass::kControl}, control);
  const OpId bulk_out = send(*pair.client, {pair.to_server, 1, MessageClass::kBulk}, bulk);
  EXPECT_EQ(finish(*pair.server, control_in).actual_size, 500U);
  EXPECT_EQ(finish(*pair.server, bulk_in).actual_size, 700U);
  EXPECT_EQ(first_difference({control_room.data(), 500}, 1, 1), std::nullopt);
  EXPECT_EQ(first_difference({bulk_room.data(), 700}, 1, 2), std::nullopt);
  EXPECT_EQ(finish(*pair.client, control_out).status, Errc::kOk);
  EXPECT_EQ(finish(*pair.client, bulk_out).status, Errc::kOk);
}

TEST_P(Bmi, PeersAreMatchedApart) {
  const Pair pair = start_pair();
  Process& other = start(false);
  const Address to_other = introduce(other, lookup(other, pair.server->url), *pair.server);
  EXPECT_NE(to_other, pair.to_client);
  const Bytes mine = pattern(1, 1, 300);
  const Bytes others = pattern(1, 2, 300);
  Bytes my_room(300);
  Bytes others_room(300);
  const OpId from_other = recv(*pair.server, {to_other, 1}, others_room);
  const OpId from_client = recv(*pair.server, {pair.to_client, 1}, my_room);
  const OpId a = send(*pair.client, {pair.to_server, 1}, mine);
  const OpId b = send(other, {lookup(other, pair.server->url), 1}, others);
  EXPECT_EQ(finish(*pair.server, from_client).status, Errc::kOk);
  EXPECT_EQ(finish(*pair.server, from_other).status, Errc::kOk);
  EXPECT_EQ(first_difference(my_room, 1, 1), std::nullopt);
  EXPECT_EQ(first_difference(others_room, 1, 2), std::nullopt);
  finish(*pair.client, a);
  finish(other, b);
}

TEST_P(Bmi, AShorterMessageLeavesTheRestOfTheRoomAlone) {
  const Pair pair = start_pair();
  for (const std::size_t size : {std::size_t{0}, std::size_t{10}, std::size_t{40'000}, std::size_t{300'000}}) {
    SCOPED_TRACE(size);
    const Bytes data = pattern(2, size, size);
    Bytes room(400'000, std::byte{0x5A});
    const OpId in = recv(*pair.server, {pair.to_client, 2}, room);
    const OpId out = send(*pair.client, {pair.to_server, 2}, data);
    EXPECT_EQ(finish(*pair.server, in).actual_size, size);
    EXPECT_EQ(finish(*pair.client, out).actual_size, size);
    EXPECT_EQ(first_difference({room.data(), size}, 2, size), std::nullopt);
    EXPECT_BYTES(ByteView(room).subspan(size), Bytes(room.size() - size, std::byte{0x5A}));
  }
}

// Small and large messages, with the receive posted before and after: the message is dropped, the sender continues, and
// the connection lives.
TEST_P(Bmi, AMessageLongerThanTheReceiveFailsItAndNothingElse) {
  const Pair pair = start_pair();
  const std::uint32_t connection = (*pair.client)->peer_info(pair.to_server).connection;
  std::uint64_t tag = 10;
  for (const std::size_t size : {std::size_t{1000}, std::size_t{200'000}}) {
    for (const bool receive_first : {true, false}) {
      SCOPED_TRACE(testing::Message() << size << " " << receive_first);
      ++tag;
      const Bytes data = pattern(tag, 0, size);
      Bytes room(size, std::byte{0x11});
      const MutableByteView half{room.data(), size / 2};
      OpId in;
      if (receive_first) in = recv(*pair.server, {pair.to_client, tag}, half);
      if (receive_first) settle();
      const OpId out = send(*pair.client, {pair.to_server, tag}, data);
      if (!receive_first) settle();
      if (!receive_first) in = recv(*pair.server, {pair.to_client, tag}, half);
      const Completion refused = finish(*pair.server, in);
      EXPECT_EQ(refused.status, Errc::kMessageTooBig);
      EXPECT_EQ(refused.actual_size, 0U);
      finish(*pair.client, out);  // a completion is local: the message may have left, or may have been refused
      EXPECT_BYTES(ByteView(room).subspan(size / 2), Bytes(room.size() - (size / 2), std::byte{0x11}));
      expect_passes(pair, tag, size);
    }
  }
  EXPECT_EQ((*pair.client)->peer_info(pair.to_server).connection, connection);
}

TEST_P(Bmi, ListsOfUnequalPieces) {
  const Pair pair = start_pair();
  for (const std::size_t size : {std::size_t{1000}, std::size_t{16'000}, std::size_t{250'000}}) {
    SCOPED_TRACE(size);
    Bytes data = pattern(6, size, size);
    Bytes room(size);
    std::vector<Segment> out;
    std::vector<Segment> in;
    for (std::size_t at = 0, piece = 1; at < size; at += out.back().size, piece = piece * 2 + 1) {
      out.push_back(Segment::of(MutableByteView(data.data() + at, std::min(piece, size - at))));
    }
    for (std::size_t at = 0, piece = 3; at < size; at += in.back().size, piece = piece * 3 % 5003) {
      in.push_back(Segment::of(MutableByteView(room.data() + at, std::min(piece, size - at))));
    }
    in.insert(in.begin() + 1, Segment::of(MutableByteView(room.data(), 0)));  // an empty piece is legal
    const OpId receive = recv_list(*pair.server, {pair.to_client, 6}, in);
    const OpId sent = send_list(*pair.client, {pair.to_server, 6}, out);
    in.clear();  // the post copied the array
    out.clear();
    EXPECT_EQ(finish(*pair.server, receive).actual_size, size);
    EXPECT_EQ(finish(*pair.client, sent).status, Errc::kOk);
    EXPECT_EQ(first_difference(room, 6, size), std::nullopt);
  }
}

// More pieces than one call of writev takes.
TEST_P(Bmi, ThousandsOfPieces) {
  const Pair pair = start_pair();
  constexpr std::size_t kPieces = 3000;
  constexpr std::size_t kPiece = 17;
  Bytes data = pattern(6, 0, kPieces * kPiece);
  Bytes room(data.size());
  std::vector<Segment> out;
  std::vector<Segment> in;
  for (std::size_t i = 0; i < kPieces; ++i) {
    out.push_back(Segment::of(MutableByteView(data.data() + i * kPiece, kPiece)));
    in.push_back(Segment::of(MutableByteView(room.data() + i * kPiece, kPiece)));
  }
  const OpId receive = recv_list(*pair.server, {pair.to_client, 6, MessageClass::kBulk}, in);
  const OpId sent = send_list(*pair.client, {pair.to_server, 6, MessageClass::kBulk}, out);
  EXPECT_EQ(finish(*pair.server, receive).actual_size, data.size());
  EXPECT_EQ(finish(*pair.client, sent).status, Errc::kOk);
  EXPECT_EQ(first_difference(room, 6, 0), std::nullopt);
}

TEST_P(Bmi, AMessageWithoutSegmentsIsEmpty) {
  const Pair pair = start_pair();
  const OpId in = recv_list(*pair.server, {pair.to_client, 5}, {});
  const OpId out = send_list(*pair.client, {pair.to_server, 5}, {});
  const Completion c = finish(*pair.server, in);
  EXPECT_EQ(c.status, Errc::kOk);
  EXPECT_EQ(c.actual_size, 0U);
  EXPECT_EQ(finish(*pair.client, out).status, Errc::kOk);
}

TEST_P(Bmi, AllocatedMemoryCarriesMessages) {
  const Pair pair = start_pair();
  const MutableByteView from = (*pair.client)->mem_alloc(100'000);
  const MutableByteView to = (*pair.server)->mem_alloc(100'000);
  ASSERT_EQ(from.size(), 100'000U);
  fill_pattern(from, 1, 0);
  const OpId in = recv(*pair.server, {pair.to_client, 1, MessageClass::kBulk}, to);
  const OpId out = send(*pair.client, {pair.to_server, 1, MessageClass::kBulk}, from);
  EXPECT_EQ(finish(*pair.server, in).status, Errc::kOk);
  EXPECT_EQ(finish(*pair.client, out).status, Errc::kOk);
  EXPECT_EQ(first_difference(to, 1, 0), std::nullopt);
  (*pair.client)->mem_free(from);
  (*pair.server)->mem_free(to);
}

}  // namespace
}  // namespace spate::bmi::conformance
