// SPDX-License-Identifier: Apache-2.0
#include "assembly/role_options.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "assembly/registry.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::assembly {
namespace {

/// An eighth of what the process may open: the rest is for clients, the keyval store and the datafiles themselves.
std::size_t descriptors_for_datafiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / 8, 64, 1024));
}

wire::DataPath data_path(config::FlowPath path) {
  switch (path) {
    case config::FlowPath::kAuto: return wire::DataPath::kAutomatic;
    case config::FlowPath::kBuffered: return wire::DataPath::kBuffered;
    case config::FlowPath::kDirect: return wire::DataPath::kDirect;
    case config::FlowPath::kPeerToPeer: return wire::DataPath::kPeerToPeer;
    case config::FlowPath::kCached: return wire::DataPath::kCached;
  }
  return wire::DataPath::kAutomatic;
}

flow::PolicyOptions policy_of(const config::FlowConfig& config) {
  flow::PolicyOptions policy;
  policy.read_path = data_path(config.read_path);
  policy.write_path = data_path(config.write_path);
  policy.direct_from_bytes = config.direct_from;
  if (config.direct_from == 0) {
    policy.direct_from_bytes =
        static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / 2;
  }
  return policy;
}

/// Without this memory the server works, only path p2p does not: all servers share one spate.toml, but not the devices.
void open_peer_memory(const config::FlowConfig& config, io::IoOptions& io) {
  if (config.p2p_memory.empty()) return;
  auto mapped = flow::PeerMemory::map(config.p2p_memory, config.p2p_size);
  if (!mapped) {
    io.no_peer_memory = mapped.error().message();
    SPATE_LOG("assembly", warn, "no memory for path p2p (flow.p2p_memory, flow.p2p_size): {}", io.no_peer_memory);
    return;
  }
  io.peer_memory = *std::move(mapped);
  if (io.peer_memory->only_a_file()) {
    SPATE_LOG("assembly", warn, "flow.p2p_memory is a file and no device's memory: good for tests only path={}",
              log::Quoted{config.p2p_memory});
  }
}

}  // namespace

std::uint64_t boot_id() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(in, text);
  return text.empty() ? 0 : hash64(as_bytes(text)) | 1U;
}

meta::MetaOptions meta_options(const RoleSource& source) {
  const config::FileSystemConfig& config = source.config;
  meta::MetaOptions meta;
  meta.fs = config.fs.id;
  meta.server = source.self.id;
  meta.make_store = source.format;
  meta.server_key = source.server_keys;
  meta.map = config::cluster_map(config);
  meta.config_text = source.text;
  meta.strip_bytes = config.defaults.strip_bytes;
  meta.strip_count = config.defaults.strip_count;
  meta.replicas = config.defaults.replicas;
  meta.min_copies = config.defaults.min_copies;
  meta.sync = config.meta.sync;
  meta.gather_removals = std::chrono::milliseconds(5);
  meta.session_lease = config.meta.session_lease;
  return meta;
}

meta::IoServersOptions io_servers_options(const RoleSource& source) {
  meta::IoServersOptions io_servers;
  io_servers.map = config::cluster_map(source.config);
  io_servers.server_key = source.server_keys.used;
  io_servers.handshake = handshake_policy(source.config);
  io_servers.description = "meta server " + std::to_string(source.self.id.value);
  return io_servers;
}

io::IoOptions io_options(const RoleSource& source) {
  const config::FlowConfig& flow = source.config.flow;
  io::IoOptions io;
  io.fs = source.config.fs.id;
  io.server = source.self.id;
  io.server_key = source.server_keys;
  io.boot = boot_id();
  io.learn_fences = true;
  io.max_descriptors = descriptors_for_datafiles();
  io.policy = policy_of(flow);
  io.bypass = static_cast<io::BypassPolicy>(flow.bypass);
  io.recall_deadline = flow.recall_deadline;
  io.rebuild_rate = flow.rebuild_rate;
  io.rebuild_after = flow.rebuild_after;
  io.own_uid = ::geteuid();
  open_peer_memory(flow, io);
  return io;
}

}  // namespace spate::assembly
