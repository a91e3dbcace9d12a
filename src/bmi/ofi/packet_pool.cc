// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/packet_pool.h"

#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace spate::bmi::ofi {
namespace {

constexpr std::size_t kSlabPackets = 64;

}  // namespace

Result<void> PacketPool::add_slab(std::size_t packets, std::vector<PacketBuffer*>& out) {
  const bool receive = &out == &receive_;
  const std::size_t packet_bytes = domain_.options().packet_bytes;
  const std::size_t bytes = packets * packet_bytes;
  void* const memory = std::aligned_alloc(Buffer::kPageAlignment, (bytes + 4095) / 4096 * 4096);
  SPATE_CHECK(memory != nullptr);
  std::memset(memory, 0, bytes);
  memory_.emplace_back(static_cast<std::byte*>(memory), &std::free);
  void* descriptor = nullptr;
  if (domain_.local_needed()) {
    Fid<fid_mr> key;
    const long failed = domain_.register_memory(memory, bytes, receive ? FI_RECV : FI_SEND, key);
    if (failed != 0) return fabric_error(failed, "registering packet buffers (ulimit -l?)");
    descriptor = fi_mr_desc(key.get());
    keys_.push_back(std::move(key));
  }
  auto& slab = slabs_.emplace_back(std::make_unique<std::vector<PacketBuffer>>(packets));
  for (std::size_t i = 0; i < packets; ++i) {
    PacketBuffer& buffer = (*slab)[i];
    buffer.kind = receive ? Context::Kind::kReceive : Context::Kind::kSend;
    buffer.data = static_cast<std::byte*>(memory) + i * packet_bytes;
    buffer.descriptor = descriptor;
    out.push_back(&buffer);
  }
  return {};
}

PacketBuffer* PacketPool::take() {
  if (free_.empty() && made_ < domain_.options().send_packets) {
    if (!add_slab(kSlabPackets, free_)) return nullptr;
    made_ += kSlabPackets;
  }
  if (free_.empty()) return nullptr;
  PacketBuffer* buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void PacketPool::take_all_back() {
  free_.clear();
  for (const auto& slab : slabs_) {
    for (PacketBuffer& buffer : *slab) {
      if (buffer.kind == Context::Kind::kSend) free_.push_back(&buffer);
    }
  }
}

}  // namespace spate::bmi::ofi
