// SPDX-License-Identifier: Apache-2.0
// RegisteredMemory: the buffers of the direct path, in memory that the targets' rings and the network's devices know
// before any request (docs/data-paths.md, "Direct").
#pragma once

#include <vector>

#include "flow/buffer_pool.h"
#include "flow/peer_memory.h"
#include "trove/bytestream.h"

namespace spate::flow {

/// Buffers of kPeerBufferBytes, cut from slabs that are made one by one as they are needed: huge pages where there are,
/// registered with the network (Network::mem_alloc) and with every target. A target that cannot (or may not: they are
/// pinned, RLIMIT_MEMLOCK) moves the same memory as any other. One thread.
class RegisteredMemory final : public BufferSource {
 public:
  static constexpr std::size_t kBuffersPerSlab = 8;
  static constexpr std::uint64_t kSlabBytes = kBuffersPerSlab * kPeerBufferBytes;  // five huge pages
  static_assert(kSlabBytes % (2ULL << 20U) == 0);

  /// Both outlive it.
  RegisteredMemory(bmi::Network& network, std::vector<trove::Bytestreams*> targets);
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
  ~RegisteredMemory() override;

  /// `size` is kPeerBufferBytes.
  MutableByteView allocate(std::uint64_t size) override;
  /// A slab stays until the end: to register it takes longer than to keep it.
  void free(MutableByteView memory) override { free_.push_back(memory.data()); }

 private:
  void add_slab();

  bmi::Network& network_;
  const std::vector<trove::Bytestreams*> targets_;
  std::vector<MutableByteView> slabs_;
  std::vector<std::byte*> free_;
  bool told_ = false;  // that a target has refused
};

}  // namespace spate::flow
