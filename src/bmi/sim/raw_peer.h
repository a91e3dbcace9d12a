// SPDX-License-Identifier: Apache-2.0
// RawPeer: a process of the simulated network that can break every rule.
#pragma once

#include <deque>

#include "bmi/sim/fabric.h"

namespace spate::bmi::sim {

/// Connects to one listener and sends packets without regard to credit and limits. The fabric outlives it.
class RawPeer final : private Endpoint {
 public:
  /// The place must be free, as for attach().
  RawPeer(Fabric& fabric, NetworkInterface interface);
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;
  ~RawPeer() override;

  /// Begins to connect; connected() or failed() tells the end. After a loss it connects again as the same process.
  void connect(NetworkInterface to);
  bool connected() const { return connected_; }
  bool failed() const { return failed_; }
  /// How often the other side has ended the connection.
  std::uint32_t losses() const { return losses_; }

  /// No effect unless connected.
  void send(Packet packet) { fabric_.send(end_, std::move(packet)); }
  void send_unexpected(Tag tag, ByteView payload);

  /// The packets that have come back, the oldest first.
  std::deque<Packet>& packets() { return packets_; }

 private:
  bool listening() const override { return false; }
  void killed() override;
  Hello accept(ConnectionEnd end, const Hello& from) override;
  void connected(ConnectionEnd end, const Hello& from) override;
  void connect_failed(ConnectionEnd end) override;
  void lost(ConnectionEnd end) override;
  void received(ConnectionEnd end, Packet packet) override;
  void left(ConnectionEnd /*end*/, std::uint64_t /*token*/) override {}
  void delivered(ConnectionEnd /*end*/, std::uint64_t /*transfer*/) override {}
  void poked() override {}

  Fabric& fabric_;
  const NetworkInterface interface_;
  std::uint64_t instance_ = 0;
  ConnectionEnd end_;
  bool connected_ = false;
  bool failed_ = false;
  std::uint32_t losses_ = 0;
  std::deque<Packet> packets_;
};

}  // namespace spate::bmi::sim
