// SPDX-License-Identifier: Apache-2.0
#include "flow/registered_memory.h"

#include "base/check.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::flow {

RegisteredMemory::RegisteredMemory(bmi::Network& network, std::vector<trove::Bytestreams*> targets)
    : network_(network), targets_(std::move(targets)) {}

RegisteredMemory::~RegisteredMemory() {
  SPATE_CHECK(free_.size() == slabs_.size() * kBuffersPerSlab);
  for (const MutableByteView slab : slabs_) {
    for (trove::Bytestreams* target : targets_) target->forget_memory(slab);
    network_.mem_free(slab);
  }
}

MutableByteView RegisteredMemory::allocate(std::uint64_t size) {
  SPATE_CHECK(size == kPeerBufferBytes);
  if (free_.empty()) add_slab();
  std::byte* const memory = free_.back();
  free_.pop_back();
  return {memory, size};
}

void RegisteredMemory::add_slab() {
  const MutableByteView slab = network_.mem_alloc(kSlabBytes);
  slabs_.push_back(slab);
  for (std::size_t at = slab.size(); at > 0; at -= kPeerBufferBytes)
    free_.push_back(slab.data() + at - kPeerBufferBytes);
  for (trove::Bytestreams* target : targets_) {
    const auto known = target->register_memory(slab);
    if (known || told_) continue;
    told_ = true;
    SPATE_LOG("flow", warn, "direct requests use memory that is not registered with the ring: {}",
              log::Quoted{known.error().message()});
  }
}

}  // namespace spate::flow
