// SPDX-License-Identifier: Apache-2.0
#include "assembly/registry.h"

#include "assembly/proofs.h"
#include "assembly/tls_keys.h"
#include "bmi/late_module.h"
#include "bmi/registry.h"
#include "bmi/shm/shm_module.h"
#include "bmi/tcp/tcp_module.h"

namespace spate::assembly {
namespace {

/// The modules in the order in which a process prefers them for allocating network memory.
bmi::Registry linked_modules(const bmi::shm::ShmOptions& shm, const bmi::tcp::TcpOptions& tcp) {
  bmi::Registry registry;
  registry.add("shm", [shm](const bmi::ModuleEnvironment& environment) {
    return bmi::shm::make_shm_module(environment.clock, shm);
  });
  registry.add("tcp", [tcp](const bmi::ModuleEnvironment& environment) {
    return bmi::tcp::make_tcp_module(environment.clock, tcp);
  });
  // Loaded when a URL needs it, so that neither libfabric nor the module need be installed otherwise.
  registry.add("ofi",
               [](const bmi::ModuleEnvironment& environment) { return bmi::make_late_module("ofi", environment); });
  return registry;
}

}  // namespace

Result<std::unique_ptr<bmi::Network>> make_network(Clock& clock, const config::FileSystemConfig& config, bool server) {
  const config::NetworkConfig& limits = config.network;
  const bmi::ModuleEnvironment environment{clock};
  bmi::shm::ShmOptions shm;
  SPATE_TRY(shm.policy, bmi::shm::parse_policy(limits.shm_users));
  SPATE_TRY(shm.servers, bmi::shm::parse_policy(limits.shm_server_users));
  bmi::tcp::TcpOptions tcp;
  tcp.tls = make_tls(config, server);
  SPATE_TRY(auto modules, linked_modules(shm, tcp).make_all({}, environment));
  bmi::NetworkOptions options;
  options.eager_limit_bytes = limits.eager_limit;
  options.copy_limit_bytes = limits.copy_limit;
  options.max_unexpected_bytes = limits.max_unexpected;
  options.buffered_per_peer_bytes = limits.buffered_per_peer;
  options.connect_timeout_ms = static_cast<std::uint32_t>(limits.connect_timeout.count() / 1'000'000);
  // A client needs a millisecond for its handshake. A server that was stopped, or waits for a disk, may need some
  // seconds more.
  constexpr std::uint32_t kUnauthenticatedPeerDeadlineMs = 5000;
  options.unauthenticated.deadline_ms = kUnauthenticatedPeerDeadlineMs;  // has an effect if this process listens
  // One source may take all places while no other source wants them: clients of one machine often connect together, and
  // with more places an honest client survives longer while another process on its machine floods the server.
  options.unauthenticated.most_of_a_source = options.unauthenticated.most;
  options.idle_close_ms = static_cast<std::uint32_t>(limits.idle_close.count() / 1'000'000);
  return bmi::make_network(std::move(modules), options);
}

rpc::HandshakePolicy handshake_policy(const config::FileSystemConfig& config) {
  return {config.auth.nat, config.auth.allow_v1, protection(config.auth), asked_proofs(config)};
}

wire::Protect protection(const config::AuthConfig& config) {
  return config.protect == config::Protect::kData ? wire::Protect::kData : wire::Protect::kControl;
}

}  // namespace spate::assembly
