// SPDX-License-Identifier: Apache-2.0
#include "server/io/peer_memory.h"

#include "flow/registered_memory.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::io {
namespace {

/// Slabs of buffers for the direct path, 8 buffers each: enough messages in flight for eight streams. Guess.
constexpr std::uint64_t kDirectSlabs = 4;

/// Other networks access the memory from the processor (to register it, or to copy it by another process), and the
/// kernel refuses that.
bool sends_device_memory(std::string_view url) { return url.starts_with("tcp://") || url.starts_with("sim://"); }

std::string try_target(Target& target, flow::PeerMemory& memory) {
  if (target.direct.alignment == 0) return target.direct.refusal;
  const MutableByteView buffer = memory.allocate(flow::kPeerBufferBytes);
  const auto tried = target.description.storage.store().try_device_memory(buffer);
  memory.free(buffer);
  return tried ? std::string() : tried.error().context();
}

}  // namespace

void open_peer_memory(Parts& parts, metrics::Registry& metrics) {
  const auto& memory = parts.options.peer_memory;
  for (Target& target : parts.targets) {
    target.peer_refusal = memory == nullptr ? parts.options.no_peer_memory : try_target(target, *memory);
    if (memory == nullptr) continue;
    if (target.peer_refusal.empty()) {
      SPATE_LOG("server", info, "path p2p is available target={} memory={}", target.description.id,
                log::Quoted{memory->path()});
    } else {
      SPATE_LOG("server", warn, "path p2p is not available target={} memory={} why={}", target.description.id,
                log::Quoted{memory->path()}, log::Quoted{target.peer_refusal});
    }
  }
  if (memory == nullptr) return;
  flow::BufferPoolOptions options;
  options.total_bytes = memory->total_bytes();
  options.largest_bytes = flow::kPeerBufferBytes;
  options.name = "p2p";
  parts.peer_pool.emplace(memory, parts.executor, options, metrics);
  parts.flow.peer_pool = &*parts.peer_pool;
}

void open_direct_memory(Parts& parts, metrics::Registry& metrics) {
  std::vector<trove::Bytestreams*> targets;
  for (Target& target : parts.targets) {
    if (target.direct.alignment != 0) targets.push_back(&target.description.storage.store());
  }
  if (targets.empty()) return;
  flow::BufferPoolOptions options;
  options.total_bytes = kDirectSlabs * flow::RegisteredMemory::kSlabBytes;
  options.largest_bytes = flow::kPeerBufferBytes;
  options.name = "direct";
  auto memory = std::make_shared<flow::RegisteredMemory>(parts.flow.network.network(), std::move(targets));
  parts.direct_pool.emplace(std::move(memory), parts.executor, options, metrics);
  parts.flow.direct_pool = &*parts.direct_pool;
}

std::string_view peer_refusal(const Parts& parts, const Target& target, bmi::Address peer, std::uint32_t unit_bytes) {
  if (!target.peer_refusal.empty()) return target.peer_refusal;
  if (unit_bytes > flow::kPeerUnitBytes)
    return "messages of more than 1 MiB do not fit the buffers in the device's memory";
  if (!sends_device_memory(parts.flow.network.network().peer_info(peer).url)) {
    return "the client came by another network than tcp, which takes no memory of a device";
  }
  return {};
}

void note_peer_refusal(Target& target) {
  if (!target.peer_refusal.empty()) return;
  target.peer_refusal = "the target's device cannot reach the p2p device's memory (EREMOTEIO)";
  SPATE_LOG("server", warn, "path p2p is given up target={} why={}", target.description.id,
            log::Quoted{target.peer_refusal});
}

}  // namespace spate::io
