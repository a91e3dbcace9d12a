// SPDX-License-Identifier: Apache-2.0
// PacketPool: the packet buffers of an endpoint, in registered memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "bmi/ofi/domain.h"
#include "bmi/ofi/fabric.h"

namespace spate::bmi::ofi {

/// Not thread-safe. Life cycle: open() -> take() and give() -> destroyed after the endpoint, since the endpoint owns
/// the receive buffers and those in flight, and before the domain. Buffers are made when needed, up to
/// WireOptions::send_packets, and are not given back to the system before the end.
class PacketPool {
 public:
  explicit PacketPool(const Domain& domain) : domain_(domain) {}

  Result<void> open() { return add_slab(domain_.options().receive_packets, receive_); }
  /// The buffers for receiving, which belong to the endpoint.
  std::span<PacketBuffer* const> receive() const { return receive_; }
  /// A buffer for sending. Null: too many are in flight, or more memory cannot be registered.
  PacketBuffer* take();
  void give(PacketBuffer& buffer) { free_.push_back(&buffer); }
  /// The endpoint is closed, so nothing is in flight any more: frees every buffer for sending.
  void take_all_back();

 private:
  Result<void> add_slab(std::size_t packets, std::vector<PacketBuffer*>& out);

  const Domain& domain_;
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> memory_;
  std::vector<Fid<fid_mr>> keys_;
  std::vector<std::unique_ptr<std::vector<PacketBuffer>>> slabs_;
  std::vector<PacketBuffer*> receive_;
  std::vector<PacketBuffer*> free_;
  std::size_t made_ = 0;  // buffers for sending
};

}  // namespace spate::bmi::ofi
