// SPDX-License-Identifier: Apache-2.0
// RegisteredMemory: buffers of the direct path that are registered with the targets' rings and the network's devices
// before any request (docs/data-paths.md, "Direct").
#pragma once

#include <vector>

#include "flow/buffer_pool.h"
#include "flow/peer_memory.h"
#include "trove/bytestream.h"

namespace spate::flow {

/// Buffers of kPeerBufferBytes, cut from slabs. Slabs are allocated one by one, in huge pages where available. Each is
/// registered with the network (Network::mem_alloc) and with every target. A target that cannot register memory, or may
/// not because of RLIMIT_MEMLOCK, still moves it like any other memory. The destructor takes the registrations back;
/// all buffers must be free then. Not thread-safe.
class RegisteredMemory final : public BufferSource {
 public:
  static constexpr std::size_t kBuffersPerSlab = 8;
  static constexpr std::uint64_t kSlabBytes = kBuffersPerSlab * kPeerBufferBytes;  // five huge pages
  static_assert(kSlabBytes % (2ULL << 20U) == 0);

  /// Both parameters outlive this object.
  RegisteredMemory(bmi::Network& network, std::vector<trove::Bytestreams*> targets);
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
  ~RegisteredMemory() override;

  /// `size` is kPeerBufferBytes.
  MutableByteView allocate(std::uint64_t size) override;
  /// Keeps the slab until this object ends, because to register it again would cost more.
  void free(MutableByteView memory) override { free_.push_back(memory.data()); }

 private:
  void add_slab();

  bmi::Network& network_;
  const std::vector<trove::Bytestreams*> targets_;
  std::vector<MutableByteView> slabs_;
  std::vector<std::byte*> free_;
  bool told_ = false;  // a refusal by a target was logged
};

}  // namespace spate::flow
