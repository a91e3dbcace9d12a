// SPDX-License-Identifier: Apache-2.0
// WireOptions: how to open an endpoint.
#pragma once

#include <cstddef>
#include <string>

#include "bmi/pin_cache.h"

namespace spate::bmi::ofi {

struct WireOptions {
  /// Whether the provider connects only processes of this host.
  bool on_this_host() const { return provider == "shm"; }

  std::string provider;  // libfabric's name: "tcp;ofi_rxm"
  std::string node;      // node and service: the remote address, or with `bind` this side's
  std::string service;
  bool bind = false;                 // node and service are this side's
  std::size_t packet_bytes = 16128;  // at most
  std::size_t receive_packets = 128;
  std::size_t send_packets = 512;  // at most
  PinCache::Options pins;
};

}  // namespace spate::bmi::ofi
