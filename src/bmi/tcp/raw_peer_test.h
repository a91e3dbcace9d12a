// SPDX-License-Identifier: Apache-2.0
// Fixture of the tests that play one side of a connection frame by frame.
#pragma once

#include <optional>

#include "bmi/tcp/module_fixture.h"

namespace spate::bmi::tcp {

class RawPeerTest : public ModuleTest {
 protected:
  void handshake_and_introduce(RawPeer& peer, const Hello& h) {
    welcome_ = handshake(peer, h);
    address_ = introduce(peer);
    (void)peer.read();  // takes the credit, if any
  }
  /// The next frame from the module. Its payload is skipped.
  std::optional<FrameHeader> next_frame(RawPeer& peer) {
    (void)drive([&] {
      const Bytes more = peer.read();
      input_.insert(input_.end(), more.begin(), more.end());
      return input_.size() >= kHeaderSize;
    });
    if (input_.size() < kHeaderSize) return std::nullopt;
    const auto header = decode_frame(input_.data());
    input_.erase(input_.begin(), input_.begin() + kHeaderSize);
    if (header && header->payload() > 0) {
      EXPECT_TRUE(drive([&] {
        const Bytes more = peer.read();
        input_.insert(input_.end(), more.begin(), more.end());
        return input_.size() >= header->payload();
      }));
      const auto end = input_.begin() + static_cast<std::ptrdiff_t>(header->payload());
      payload_.assign(input_.begin(), end);
      input_.erase(input_.begin(), end);
    }
    return header;
  }
  FrameHeader data_for(OpId op, std::uint64_t size) {
    FrameHeader header = frame(FrameType::kData, 0, size);
    header.id = op.value;
    return header;
  }

  Welcome welcome_;
  Address address_;
  Bytes input_;
  Bytes payload_;
};

}  // namespace spate::bmi::tcp
