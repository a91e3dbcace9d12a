// SPDX-License-Identifier: Apache-2.0
// Reading: frames that are cut at any place arrive whole, and each payload goes where it belongs.
#include "bmi/tcp/connection.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/expect.h"
#include "base/random.h"

namespace spate::bmi::tcp {
namespace {

class ConnectionTest : public testing::Test, public FrameHandler {
 protected:
  ConnectionTest() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    far_.reset(pair[0]);
    connection_ = std::make_unique<Connection>(UniqueFd(pair[1]), *this);
  }

  static void expect(Connection& connection, const FrameHeader& header, Op* op,
                     std::unique_ptr<protocol::Arrived> arrived) {
    connection.incoming() = protocol::Incoming{true, header, header.length, op, std::move(arrived)};
  }
  // Odd tags have a receive (of two pieces), even ones do not; tags divisible by ten are dropped.
  std::size_t header_size() const override { return kHeaderSize; }
  bool on_header(Connection& connection, const std::byte* bytes) override {
    const auto header = decode_frame(bytes);
    if (!header) return false;
    headers_.push_back(*header);
    if (header->payload() == 0 && header->type != FrameType::kEager) return true;
    if (header->tag % 10 == 0) {
      expect(connection, *header, nullptr, nullptr);
    } else if (header->tag % 2 == 1) {
      op_ = std::make_unique<Op>();
      room_.assign(header->length, std::byte{0});
      const std::size_t half = room_.size() / 3;
      if (placed_.empty()) {
        op_->segments.assign(std::array{Segment::of(MutableByteView(room_).first(half)),
                                        Segment::of(MutableByteView(room_).subspan(half))});
      } else {
        op_->segments.assign(std::array{Segment::of(placed_)});
      }
      op_->cursor = SegmentCursor(op_->segments.view());
      expect(connection, *header, op_.get(), nullptr);
    } else {
      auto arrived = std::make_unique<protocol::Arrived>();
      arrived->payload = Buffer(header->length);
      expect(connection, *header, nullptr, std::move(arrived));
    }
    return true;
  }
  void on_payload(Connection& connection) override {
    protocol::Incoming& incoming = connection.incoming();
    incoming.active = false;
    if (incoming.op != nullptr) {
      payloads_.push_back(placed_.empty() ? room_ : to_bytes(placed_));
    } else if (incoming.arrived != nullptr) {
      payloads_.push_back(to_bytes(std::move(incoming.arrived)->payload.view()));
    } else {
      payloads_.emplace_back();
    }
    incoming.op = nullptr;
    incoming.arrived.reset();
  }

  void append(std::uint64_t tag, std::size_t size) {
    FrameHeader header;
    header.tag = tag;
    header.length = size;
    const HeaderBytes bytes = encode(header);
    stream_.insert(stream_.end(), bytes.begin(), bytes.end());
    Bytes payload(size);
    random_.fill(payload);
    stream_.insert(stream_.end(), payload.begin(), payload.end());
    expected_.push_back(tag % 10 == 0 ? Bytes() : payload);
  }
  ReadStatus read() { return connection_->read(*scratch_, limit_); }
  /// Writes the next `size` bytes of the stream.
  void write(std::size_t size) {
    ASSERT_EQ(::write(far_.get(), stream_.data() + written_, size), static_cast<ssize_t>(size));
    written_ += size;
  }
  /// The low-water mark of the socket, in bytes (SO_RCVLOWAT).
  int low_water() const {
    int value = 0;
    socklen_t size = sizeof value;
    EXPECT_EQ(::getsockopt(connection_->socket(), SOL_SOCKET, SO_RCVLOWAT, &value, &size), 0);
    return value;
  }

  std::uint64_t limit_ = 1024 * 1024;
  UniqueFd far_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<ReceiveScratch> scratch_ = std::make_unique<ReceiveScratch>();
  SeededRandom random_{3};
  Bytes stream_;
  std::size_t written_ = 0;
  std::vector<Bytes> expected_;
  std::vector<FrameHeader> headers_;
  std::vector<Bytes> payloads_;
  std::unique_ptr<Op> op_;
  Bytes room_;
  MutableByteView placed_;  // if not empty, the receive's memory
};

struct PlacedReceive {
  const char* name;
  std::size_t at;  // offset within its page
  bool from_this_host;
  bool in_between;  // whether it is copied from the scratch buffer
};

struct PlacedReceiveTest : ConnectionTest, testing::WithParamInterface<PlacedReceive> {};

TEST_P(PlacedReceiveTest, LargePayloadsGoByTheScratchOnlyWhereTheKernelWouldCopySlowly) {
  constexpr std::size_t kSize = 100'000;
  Buffer memory(kSize + 4096, 4096);
  placed_ = memory.view().subspan(GetParam().at, kSize);
  connection_->from_this_host = GetParam().from_this_host;
  append(1, kSize);
  write(kHeaderSize);
  ASSERT_EQ(read(), ReadStatus::kDrained);
  scratch_->fill(std::byte{0xee});
  write(kSize);
  while (read() == ReadStatus::kMore) {
  }
  EXPECT_EQ(payloads_, expected_);
  const bool untouched = std::count(scratch_->begin() + 1000, scratch_->begin() + 2000, std::byte{0xee}) == 1000;
  EXPECT_EQ(untouched, !GetParam().in_between);
}

INSTANTIATE_TEST_SUITE_P(Places, PlacedReceiveTest,
                         testing::Values(PlacedReceive{"as_malloc_from_here", 16, true, true},
                                         PlacedReceive{"as_malloc_from_elsewhere", 16, false, false},
                                         PlacedReceive{"on_a_page_from_here", 0, true, false},
                                         PlacedReceive{"amid_a_page_from_here", 2048, true, false}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_F(ConnectionTest, FramesCutAtEveryPlaceArriveWhole) {
  append(1, 5);
  append(2, 0);
  append(3, 40);
  append(10, 17);
  append(4, 33);
  for (std::size_t cut = 1; cut < stream_.size(); ++cut) {
    payloads_.clear();
    ASSERT_EQ(::write(far_.get(), stream_.data(), cut), static_cast<ssize_t>(cut));
    ASSERT_EQ(read(), ReadStatus::kDrained);
    ASSERT_EQ(::write(far_.get(), stream_.data() + cut, stream_.size() - cut),
              static_cast<ssize_t>(stream_.size() - cut));
    ASSERT_EQ(read(), ReadStatus::kDrained);
    ASSERT_EQ(payloads_, expected_) << cut;
  }
}

TEST_F(ConnectionTest, RandomSizesInRandomPieces) {
  for (int i = 0; i < 400; ++i)
    append(random_.below(100), random_.chance(1, 4) ? random_.below(100'000) : random_.below(300));
  for (std::size_t at = 0; at < stream_.size();) {
    const std::size_t want = std::min<std::size_t>(stream_.size() - at, 1 + random_.below(150'000));
    const ssize_t n = ::write(far_.get(), stream_.data() + at, want);
    if (n > 0) at += static_cast<std::size_t>(n);
    const ReadStatus status = read();
    ASSERT_THAT(status, testing::AnyOf(ReadStatus::kDrained, ReadStatus::kMore));
  }
  while (read() == ReadStatus::kMore) {
  }
  ASSERT_EQ(payloads_.size(), expected_.size());
  for (std::size_t i = 0; i < expected_.size(); ++i) ASSERT_EQ(payloads_[i], expected_[i]) << i;
}

TEST_F(ConnectionTest, TheRestOfACancelledReceiveIsDropped) {
  append(1, 50'000);
  append(3, 10);
  const std::size_t first = kHeaderSize + 20'000;
  ASSERT_EQ(::write(far_.get(), stream_.data(), first), static_cast<ssize_t>(first));
  ASSERT_EQ(read(), ReadStatus::kDrained);
  connection_->incoming().op = nullptr;
  op_.reset();
  const Bytes before = room_;
  ASSERT_EQ(::write(far_.get(), stream_.data() + first, stream_.size() - first),
            static_cast<ssize_t>(stream_.size() - first));
  Bytes kept;
  kept.swap(room_);  // the receive's memory, which must not change
  ASSERT_EQ(read(), ReadStatus::kDrained);
  EXPECT_EQ(kept, before);
  ASSERT_EQ(payloads_.size(), 2U);
  EXPECT_EQ(payloads_[1], expected_[1]);
}

TEST_F(ConnectionTest, ReportsGarbageAndTheEndOfTheConnection) {
  const Bytes garbage(kHeaderSize, std::byte{0x41});
  ASSERT_EQ(::write(far_.get(), garbage.data(), garbage.size()), static_cast<ssize_t>(garbage.size()));
  EXPECT_EQ(read(), ReadStatus::kProtocol);
  far_.reset();
  EXPECT_EQ(read(), ReadStatus::kLost);
}

TEST_F(ConnectionTest, InALargePayloadTheConnectionIsWokenForAGoodPartOfTheRest) {
  append(1, 100'000);
  append(3, 1000);
  write(kHeaderSize + 20'000);
  ASSERT_EQ(read(), ReadStatus::kDrained);
  EXPECT_EQ(low_water(), 80'000);
  write(70'000);
  ASSERT_EQ(read(), ReadStatus::kDrained);
  EXPECT_EQ(low_water(), 1) << "a small rest";
  write(10'000 + kHeaderSize);
  ASSERT_EQ(read(), ReadStatus::kDrained);
  EXPECT_EQ(low_water(), 1);
  write(1000);
  ASSERT_EQ(read(), ReadStatus::kDrained);
  EXPECT_EQ(payloads_, expected_);
}

TEST_F(ConnectionTest, ReadsNoMoreThanItsLimit) {
  append(1, 100'000);
  write(kHeaderSize + 100'000);
  limit_ = 20'000;
  ASSERT_EQ(read(), ReadStatus::kMore);  // reads the header and the bytes that came with it
  const std::uint64_t first = connection_->bytes_read();
  ASSERT_EQ(read(), ReadStatus::kMore);
  EXPECT_EQ(connection_->bytes_read(), first + limit_);
  while (read() == ReadStatus::kMore) {
  }
  EXPECT_EQ(payloads_, expected_);
}

// A turn may have read enough and end just after the large payload, within a small one. The socket must then wake for
// any number of bytes.
TEST_F(ConnectionTest, AfterALargePayloadTheConnectionIsWokenForEveryByte) {
  constexpr int kBuffer = 8 << 20;
  if (::setsockopt(far_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kBuffer, sizeof kBuffer) != 0) {
    GTEST_SKIP() << "a large socket buffer needs CAP_NET_ADMIN";
  }
  append(1, 1'200'000);
  append(3, 10);
  write(kHeaderSize + 20'000);
  ASSERT_EQ(read(), ReadStatus::kDrained);
  EXPECT_EQ(low_water(), 512 * 1024);
  write(1'180'000 + kHeaderSize);
  limit_ = 1'180'000;
  ASSERT_EQ(read(), ReadStatus::kMore);
  ASSERT_EQ(payloads_.size(), 1U);
  ASSERT_EQ(read(), ReadStatus::kDrained);
  EXPECT_EQ(low_water(), 1);
}

}  // namespace
}  // namespace spate::bmi::tcp
