// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/membership.h"

#include <algorithm>

#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"
#include "server/meta/store/keys.h"

namespace spate::meta {
namespace {

constexpr std::string_view kCluster = "cluster";

std::string name_of(const ServerEntry& server) {
  return "server " + std::to_string(server.id.value) + " (" + server.urls.front() + ")";
}

bool well_formed(const ServerEntry& server) {
  const auto is_url = [](const std::string& url) { return !url.empty() && url.size() <= kMaxUrlBytes; };
  const auto is_own = [&server](TargetId target) { return server_of(target) == server.id; };
  return server.id && server.id.value <= kMaxServerId && !server.urls.empty() &&
         server.urls.size() <= kMaxUrlsPerServer && std::ranges::all_of(server.urls, is_url) &&
         (server.rack.empty() || is_rack_name(server.rack)) && !server.targets.empty() &&
         server.targets.size() <= kMaxTargetsPerServer && std::ranges::all_of(server.targets, is_own);
}

/// Whether two servers have an address in common. Addresses in shared memory are names within one machine: servers on
/// two machines may have the same.
bool share_an_address(const ServerEntry& a, const ServerEntry& b) {
  return std::ranges::any_of(a.urls, [&b](const std::string& url) {
    return url.find("shm:") == std::string::npos && std::ranges::find(b.urls, url) != b.urls.end();
  });
}

}  // namespace

Membership::Membership(const MetaOptions& options, job::KeyvalContext& store, const MetaParts& parts)
    : options_(options), store_(store), parts_(parts), turn_(store.executor(), 1) {
  record_ = merged({});
  targets_ = record_.map.targets_in_turn();
}

/// Keeps the servers that only the store names if they joined by themselves. The others were removed from
/// spate.toml.
ClusterRecord Membership::merged(const std::optional<ClusterRecord>& stored) const {
  ClusterRecord record;
  record.map = options_.map;
  if (stored) {
    record.next_server = stored->next_server;
    record.map.version = stored->map.version;
    for (const ServerEntry& server : stored->map.servers) {
      const bool added = std::ranges::binary_search(stored->added, server.id);
      if (added) record.added.push_back(server.id);
      if (!added && record.map.find_server(server.id) == nullptr) continue;
      // A server with other roles than in spate.toml is another server.
      std::ignore = record.map.add(server);
    }
    if (record.map.servers != stored->map.servers) ++record.map.version;
  }
  if (!record.map.servers.empty())
    record.next_server = std::max(record.next_server, record.map.servers.back().id.value + 1);
  return record;
}

job::Task<Result<void>> Membership::start() {
  job::Transaction transaction = store_.begin();
  auto read = co_await transaction.get(global_key(kCluster));
  if (read.status != Errc::kOk) co_return Error(read.status, "cluster map in the meta store");
  std::optional<ClusterRecord> stored;
  if (read.value) {
    SPATE_CO_TRY(stored, decode_record<ClusterRecord>(*read.value));
    if (stored->map.fs != options_.fs) co_return Error(Errc::kCorrupt, "the meta store has another file system's map");
  }
  ClusterRecord record = merged(stored);
  if (stored && record != *stored) {
    // The server must start even if the device is full. The next start computes the same map with the same version.
    const auto saved = co_await save(record);
    if (!saved) SPATE_LOG("server/meta", warn, "cluster map not written down error={}", saved.error().message());
  }
  use(std::move(record));
  co_return {};
}

job::Task<Result<void>> Membership::save(const ClusterRecord& record) {
  if (planted(Defect::kForgottenServer)) co_return {};
  job::Transaction transaction = store_.begin();
  transaction.put(global_key(kCluster), encoded(record));
  const auto done = co_await transaction.commit(trove::Durability::kMachine);
  if (done.status != Errc::kOk) co_return Error(done.status, "cluster map of the meta store");
  co_return {};
}

/// Must not await, so that a server whose targets get files is also in the list of servers to fence.
void Membership::use(ClusterRecord record) {
  record_ = std::move(record);
  targets_ = record_.map.targets_in_turn();
  for (const ServerEntry& server : record_.map.servers) parts_.io->server_added(server);
  if (listener_) listener_(record_.map.version);
}

job::Task<Result<ServerId>> Membership::reserve(job::StopToken stop) {
  SPATE_CO_TRY(const job::Semaphore::Units turn, co_await turn_.acquire(1, stop));
  if (record_.next_server > kMaxServerId) co_return Error::told(Errc::kOutOfRange, "all server numbers are taken");
  ClusterRecord record = record_;
  const ServerId id(record.next_server++);
  SPATE_CO_TRY(std::ignore, co_await save(record));
  record_ = std::move(record);
  co_return id;
}

Result<void> Membership::check(const ServerEntry& server) const {
  if (!well_formed(server)) {
    return Error::told(Errc::kInvalidArgument, "server " + std::to_string(server.id.value) +
                                                   " names addresses, targets or a rack that no server can have");
  }
  if (record_.map.servers.size() >= kMaxServers)
    return Error::told(Errc::kOutOfRange, "the file system is full of servers");
  for (const ServerEntry& other : record_.map.servers) {
    if (other.id != server.id && share_an_address(other, server))
      return Error::told(Errc::kExists, name_of(server) + " has an address of " + name_of(other));
  }
  const ServerEntry* const known = record_.map.find_server(server.id);
  if (known == nullptr) return {};
  if (!known->roles.io) return Error::told(Errc::kExists, name_of(*known) + " is no io server");
  const bool by_itself = std::ranges::binary_search(record_.added, server.id);
  if (by_itself && known->urls != server.urls) {
    return Error::told(Errc::kExists, name_of(*known) + " was added under these addresses, and " + name_of(server) +
                                          " has others; to move it, name it with them in the meta server's spate.toml "
                                          "and restart the meta server");
  }
  return {};
}

/// A server says its rack again each time it joins. That in spate.toml counts.
void Membership::move_to_rack(ClusterMap& map, const ServerEntry& server) const {
  const ServerEntry* const named = options_.map.find_server(server.id);
  if (server.rack.empty() || (named != nullptr && !named->rack.empty())) return;
  std::ranges::find(map.servers, server.id, &ServerEntry::id)->rack = server.rack;
}

job::Task<Result<void>> Membership::join(ServerEntry server, job::StopToken stop) {
  server.roles = {false, true};
  SPATE_CO_TRY(const job::Semaphore::Units turn, co_await turn_.acquire(1, stop));
  SPATE_CO_TRY(std::ignore, check(server));
  ClusterRecord record = record_;
  if (const ServerEntry* const known = record.map.find_server(server.id)) {
    server.roles = known->roles;
  } else {
    record.added.insert(std::ranges::upper_bound(record.added, server.id), server.id);
  }
  SPATE_CO_TRY(std::ignore, record.map.add(server));
  move_to_rack(record.map, server);
  if (record.map == record_.map) co_return {};
  ++record.map.version;
  record.next_server = std::max(record.next_server, server.id.value + 1);
  SPATE_CO_TRY(std::ignore, co_await save(record));
  use(std::move(record));
  SPATE_LOG("server/meta", info, "server joined server={} url={} targets={} map_version={}", server.id.value,
            log::Quoted{server.urls.front()}, server.targets.size(), record_.map.version);
  co_return {};
}

}  // namespace spate::meta
