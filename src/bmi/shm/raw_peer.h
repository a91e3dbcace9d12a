// SPDX-License-Identifier: Apache-2.0
// RawPeer: a peer in a test that sends and writes whatever the test wants.
#pragma once

#include <sys/eventfd.h>
#include <sys/stat.h>

#include <array>
#include <optional>
#include <string>

#include "base/expect.h"
#include "bmi/shm/endpoint.h"
#include "bmi/shm/hello.h"
#include "bmi/shm/link.h"
#include "bmi/shm/packet.h"

namespace spate::bmi::shm {

/// A connector that can break the protocol.
class RawPeer {
 public:
  explicit RawPeer(const std::string& url) : bell_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    UniqueFd socket = make_socket().value();
    EXPECT_EQ(connect_to(socket.get(), parse_url(url).value()), 0);
    link_ = std::make_unique<Link>(std::move(socket), Side::kConnector);
  }

  static Hello hello() {
    static std::uint8_t next = 0;
    Hello hello;
    hello.link.fill(std::byte{++next});
    hello.limits = {1024 * 1024, 256 * 1024, 100};
    return hello;
  }
  void say(ByteView bytes, std::span<const int> descriptors = {}) {
    EXPECT_EQ(send_packet(link_->socket(), bytes, descriptors), 0);
  }
  void say(const Note& note, int descriptor = -1) { EXPECT_EQ(link_->send_note(note, descriptor), 0); }
  void send_hello(const Hello& hello) { say(encode(hello), std::array{bell_.get()}); }

  /// Receives the next packet and keeps its descriptors. Empty: there is none, or the link is closed.
  Bytes read() {
    Packet packet;
    receive_packet(link_->socket(), packet);
    closed_ = closed_ || packet.status == Packet::Status::kClosed;
    if (packet.descriptor_count == 2) {
      memory_ = std::move(packet.descriptors[0]);
      remote_bell_ = std::move(packet.descriptors[1]);
    }
    const auto note = decode_note(packet.view());
    if (note && note->kind == Note::Kind::kLanes && packet.descriptor_count == 1) {
      EXPECT_OK(link_->map_full_lanes(packet.descriptors[0].get()));
      full_lanes_ = map_whole(packet.descriptors[0]);
    }
    return to_bytes(packet.view());
  }
  testing::AssertionResult closed() {
    (void)read();
    return (closed_ ? testing::AssertionSuccess() : testing::AssertionFailure())
           << "the other side has " << (closed_ ? "" : "not ") << "closed the link";
  }
  void map(const Welcome& welcome) {
    geometry_ = welcome.geometry;
    const Result<void> mapped = link_->map_segment(welcome.geometry, memory_.get(), welcome.version);
    EXPECT_OK(mapped);
    whole_ = map_whole(memory_);
    follow();
  }
  /// Continues in the full lanes if the other side has begun to use them.
  void follow() {
    for (const MessageClass c : {MessageClass::kControl, MessageClass::kBulk}) {
      Frame seen;
      if (!link_->narrow_in(c) || link_->in(c).look(seen) != LaneReader::Look::kFrame) continue;
      if (seen.header.type != kWiden) continue;
      if (!link_->has_full_lanes()) (void)read();
      ASSERT_TRUE(link_->has_full_lanes()) << "the other side uses full lanes, but has not passed them";
      link_->widen_in(c);
      widen(c);
    }
  }
  void widen(MessageClass c) {
    FrameHeader header;
    header.type = kWiden;
    header.message_class = c;
    write(header);
    if (link_->has_full_lanes()) link_->widen_out(c);
  }

  /// The segment, every byte of it.
  MutableByteView memory() const { return whole_.view(); }
  /// The full lanes; empty until the other side has passed them.
  MutableByteView full_lanes() const { return full_lanes_.view(); }
  const Geometry& geometry() const { return geometry_; }
  int memory_descriptor() const { return memory_.get(); }
  Link& link() { return *link_; }
  void ring() { say(Note{}); }

  /// Writes a frame with its payload, and rings the bell.
  void write(const FrameHeader& header, ByteView payload = {}, std::optional<MessageClass> lane = {}) {
    LaneWriter& out = link_->out(lane.value_or(header.message_class));
    ASSERT_TRUE(out.has_room(payload.size())) << "the lane has no room for " << payload.size() << " bytes";
    InlineWords small{};
    if (payload.size() <= kInlineBytes) {
      std::ranges::copy(payload, std::as_writable_bytes(std::span(small)).begin());
    } else {
      const Room room = out.room(payload.size());
      std::ranges::copy(payload.first(room.first.size()), room.first.begin());
      std::ranges::copy(payload.subspan(room.first.size()), room.second.begin());
    }
    out.publish(header, payload.size(), small);
    ring();
  }
  /// Takes the next frame of a lane.
  std::optional<Frame> next(MessageClass c) {
    Frame frame;
    if (link_->in(c).look(frame) != LaneReader::Look::kFrame) return std::nullopt;
    link_->in(c).take(frame);
    link_->in(c).publish_taken();
    return frame;
  }

 private:
  static Mapping map_whole(const UniqueFd& memory) {
    struct stat st{};
    EXPECT_EQ(::fstat(memory.get(), &st), 0);
    return Mapping::of(memory.get(), static_cast<std::uint64_t>(st.st_size), true).value();
  }

  UniqueFd bell_;
  UniqueFd memory_;
  UniqueFd remote_bell_;
  std::unique_ptr<Link> link_;
  Mapping whole_;
  Mapping full_lanes_;
  Geometry geometry_;
  bool closed_ = false;
};

inline FrameHeader frame(FrameType type, std::uint64_t tag = 0, std::uint64_t length = 0, std::uint64_t id = 0) {
  FrameHeader header;
  header.type = type;
  header.tag = tag;
  header.length = length;
  header.id = id;
  return header;
}

}  // namespace spate::bmi::shm
