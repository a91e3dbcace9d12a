// SPDX-License-Identifier: Apache-2.0
// Domain: a provider of libfabric, opened, and the registration of memory with it. WireOptions: how to open an
// endpoint.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "bmi/ofi/fabric.h"
#include "bmi/ofi/packet.h"
#include "bmi/pin_cache.h"

namespace spate::bmi::ofi {

/// How to open an endpoint.
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

/// Pinned. Not thread-safe. Life cycle: find_provider() -> open() -> close_pins(), when no endpoint uses the memory any
/// more -> destroyed.
class Domain final : public Registrar {
 public:
  explicit Domain(WireOptions options) : options_(std::move(options)) {}
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  /// Errors: see Wire::open.
  Result<void> find_provider();
  /// Opens the provider. `watch` reports pages that go away; null: nothing does.
  Result<void> open(PageWatcher* watch);
  void close_pins() { pins_.reset(); }

  /// The options that the domain was made with, reduced to what the provider can do.
  const WireOptions& options() const { return options_; }
  const std::string& device() const { return device_; }
  fi_info& info() const { return *info_; }
  fid_fabric& fabric() const { return *fabric_; }
  fid_domain& get() const { return *domain_; }
  /// Endpoints that are opened from now on have this address; with shm, this name.
  void bind_to(ByteView address);
  void bind_to_node(std::string node, bool bind);

  bool reads() const { return reads_; }
  bool local_needed() const { return local_needed_; }
  std::size_t max_pieces() const { return max_pieces_; }
  PinCache& pins() { return *pins_; }
  Extent extent_of(const PinCache::Region& region, const std::byte* data, std::uint64_t size) const;
  void* descriptor_of(const PinCache::Region& region) const;
  /// Registers memory of this side. `access`: FI_SEND, FI_RECV and so on. A result below 0 is libfabric's error.
  long register_memory(void* memory, std::size_t bytes, std::uint64_t access, Fid<fid_mr>& out) const;

  Result<void*> pin(const PageRange& range) override;
  void unpin(void* handle) override;

 private:
  std::uint64_t new_key() const;

  WireOptions options_;
  Info info_;
  Fid<fid_fabric> fabric_;
  Fid<fid_domain> domain_;
  std::string device_;
  bool reads_ = false;
  bool local_needed_ = false;
  bool virtual_addresses_ = false;
  bool provider_keys_ = false;
  std::size_t max_pieces_ = 1;
  std::unique_ptr<PinCache> pins_;
};

/// The names of the providers that this host's libfabric has, for messages. Empty when libfabric cannot tell.
std::string known_providers();

}  // namespace spate::bmi::ofi
