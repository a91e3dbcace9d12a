// SPDX-License-Identifier: Apache-2.0
#include "bmi/sim/raw_peer.h"

#include <utility>

namespace spate::bmi::sim {

RawPeer::RawPeer(Fabric& fabric, NetworkInterface interface)
    : fabric_(fabric), interface_(interface), instance_(fabric.enter(interface, *this)) {}

RawPeer::~RawPeer() { fabric_.leave(interface_, *this); }

void RawPeer::connect(NetworkInterface to) {
  Hello hello;
  hello.instance = instance_;
  hello.peer = 1;
  hello.interface = interface_;
  hello.limits.fill(std::uint64_t{1} << 40);
  hello.max_unexpected = std::uint64_t{1} << 40;
  connected_ = false;
  failed_ = false;
  end_ = fabric_.connect(interface_, to, hello, std::chrono::seconds(10));
}

void RawPeer::send_unexpected(Tag tag, ByteView payload) {
  Packet packet;
  packet.kind = Packet::Kind::kUnexpected;
  packet.tag = tag;
  packet.size = payload.size();
  packet.payload = to_bytes(payload);
  send(std::move(packet));
}

void RawPeer::killed() {
  connected_ = false;
  failed_ = true;
}

Hello RawPeer::accept(ConnectionEnd /*end*/, const Hello& /*from*/) { return {}; }

void RawPeer::connected(ConnectionEnd /*end*/, const Hello& /*from*/) { connected_ = true; }

void RawPeer::connect_failed(ConnectionEnd /*end*/) { failed_ = true; }

void RawPeer::lost(ConnectionEnd /*end*/) {
  connected_ = false;
  losses_ += 1;
}

void RawPeer::received(ConnectionEnd /*end*/, Packet packet) { packets_.push_back(std::move(packet)); }

}  // namespace spate::bmi::sim
