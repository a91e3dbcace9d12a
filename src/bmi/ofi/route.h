// SPDX-License-Identifier: Apache-2.0
// Route: the way from one endpoint to another one.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace spate::bmi::ofi {

struct PacketBuffer;

/// The way from this endpoint to another one. The wire owns it and frees it some time after close_route().
struct Route {
  std::uint64_t fabric_address = 0;
  void* owner = nullptr;            // null: closed
  Bytes name;                       // as the provider gives it
  std::uint32_t in_flight = 0;      // packets
  std::uint32_t reads = 0;          // in flight
  PacketBuffer* refused = nullptr;  // a filled packet that the provider could not take yet; it is sent first
  bool same_process = false;
  bool failed = false;  // the provider cannot send to it, so the peer is lost
  // The provider's connection has failed, and the provider makes no other one while the endpoint is open.
  bool broken = false;
};

}  // namespace spate::bmi::ofi
