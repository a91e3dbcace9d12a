// SPDX-License-Identifier: Apache-2.0
// The core's addresses and what modules report. Contexts are in core_test_calls.cc.
#include "bmi/core.h"

#include <tuple>
#include <utility>

#include "base/check.h"
#include "bmi/registry.h"
#include "log/fields.h"
#include "log/log.h"

namespace spate::bmi {
namespace {

Module* module_for(std::span<Module* const> modules, std::string_view url) {
  const std::string_view scheme = module_scheme(url);
  for (Module* module : modules) {
    if (module->scheme() == scheme) return module;
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Network> make_network(std::vector<std::unique_ptr<Module>> modules, NetworkOptions options) {
  return std::make_unique<Core>(std::move(modules), options);
}

Core::Core(std::vector<std::unique_ptr<Module>> modules, NetworkOptions options) : options_(options) {
  for (std::unique_ptr<Module>& module : modules) {
    Loaded& loaded = modules_.emplace_back();
    loaded.sink = std::make_unique<ModuleSink>(*this, *module);
    loaded.module = std::move(module);
    const Result<void> started = loaded.module->start(*loaded.sink, options_);
    if (!started) {
      SPATE_LOG("bmi", warn, "module not usable scheme={} error={}", loaded.module->scheme(), started.error());
      modules_.pop_back();
      continue;
    }
    started_.push_back(loaded.module.get());
  }
}

Core::~Core() { modules_.clear(); }  // before the tables that the modules' sinks refer to

Result<std::string> Core::listen(std::string_view url, ContextId context) {
  Module* module = module_for(started_, url);
  if (module == nullptr) return Error(Errc::kNoSuchModule, "listen on " + std::string(url));
  return module->listen(url, context);
}

namespace {

/// The URLs as a key of the address table.
Result<std::string> list_of(std::span<const std::string> urls) {
  constexpr std::size_t kMaxUrls = 64;
  if (urls.empty() || urls.size() > kMaxUrls) return Error(Errc::kBadAddress, "a server needs 1 to 64 URLs");
  std::string list;
  for (const std::string& url : urls) {
    if (module_scheme(url).empty()) return Error(Errc::kBadAddress, "\"" + url + "\" has no scheme (tcp://host:port)");
    list += url + "\n";
  }
  return list;
}

}  // namespace

Result<Address> Core::lookup(std::span<const std::string> urls) {
  return find_or_add(
      urls, [](AddressTable& table, const std::string& list) { return table.find_list(list); },
      [](AddressTable& table, std::string list, Address added) { table.add_list(std::move(list), added); });
}

Result<Address> Core::claim(std::span<const std::string> urls) {
  return find_or_add(
      urls, [](AddressTable& table, const std::string& list) { return table.claim_released(list); },
      [](AddressTable& table, std::string list, Address added) { table.claim(std::move(list), added); });
}

Result<Address> Core::find_or_add(std::span<const std::string> urls, FindList find, EnterList enter) {
  SPATE_TRY(std::string list, list_of(urls));
  const std::lock_guard one_lookup(lookup_mutex_);
  {
    const std::lock_guard lock(tables_.mutex);
    if (const Address found = find(tables_.addresses, list)) return found;
  }
  SPATE_TRY(const Address address, add_address(urls));
  const std::lock_guard lock(tables_.mutex);
  enter(tables_.addresses, std::move(list), address);
  return address;
}

void Core::release(Address claimed) {
  const Address address = unbound(claimed);
  {
    const std::lock_guard lock(tables_.mutex);
    if (!tables_.addresses.is_claimed(address)) return;
  }
  for (const Route& route : tables_.routes_of(address)) {
    route.module->disconnect(route.peer);
    route.module->forget_failure(route.peer);
  }
  std::vector<QueuedMessage> dropped;
  {
    const std::lock_guard lock(tables_.mutex);
    dropped = tables_.take_messages_of(address);
  }
  // Otherwise the peer's next connection would have less credit.
  for (const QueuedMessage& queued : dropped) queued.module->consumed(queued.peer, queued.charge);
  const std::lock_guard lock(tables_.mutex);
  tables_.addresses.release(address);
}

Result<Address> Core::add_address(std::span<const std::string> urls) {
  Address address;
  {
    const std::lock_guard lock(tables_.mutex);
    address = tables_.addresses.reserve();
  }
  std::vector<Route> routes;
  Error missing(Errc::kNoSuchModule, urls.front());
  for (const std::string& url : urls) {
    Module* module = module_for(started_, url);
    if (module == nullptr) continue;
    const Result<PeerId> peer = module->lookup(url, address);
    if (peer) {
      routes.push_back(Route{module, *peer, module->abilities().sends_at_once});
    } else if (peer.code() == Errc::kNoSuchModule) {
      missing = peer.error();  // a module that is loaded on demand and is not installed
    } else {
      return peer.error();
    }
  }
  if (routes.empty()) return missing;
  const std::lock_guard lock(tables_.mutex);
  tables_.addresses.add(address, std::move(routes), ContextId());
  return address;
}

std::vector<NetworkCount> Core::counts() const {
  std::vector<NetworkCount> all;
  for (const Module* module : started_) {
    for (const ModuleCount& count : module->counts()) all.push_back({module->scheme(), count.name, count.value});
  }
  return all;
}

PeerInfo Core::peer_info(Address peer) const {
  std::vector<Route> routes;
  std::size_t current = 0;
  {
    const std::lock_guard lock(tables_.mutex);
    const AddressEntry* entry = tables_.addresses.find(unbound(peer));
    if (entry == nullptr) return {};
    routes = entry->routes;
    current = entry->current;
  }
  PeerInfo info;
  for (std::size_t i = 0; i < routes.size(); ++i) {
    PeerState state = routes[i].module->peer_state(routes[i].peer);
    info.connection += state.connections;
    if (!state.failure.empty()) info.failed.push_back(FailedUrl{state.url, std::move(state.failure)});
    if (i != current) continue;
    info.url = std::move(state.url);
    info.connected = state.connected;
    info.reached = std::move(state.reached);
    info.security = std::move(state.security);
    info.binding = state.binding;
    info.same_host = state.same_host;
    info.uid = state.uid;
    info.passes_descriptors =
        state.connected && state.takes_descriptors && routes[i].module->abilities().passes_descriptors;
  }
  return info;
}

Address Core::bound(Address peer) const {
  const Address plain = unbound(peer);
  Route route;
  std::uint64_t url = 0;
  {
    const std::lock_guard lock(tables_.mutex);
    const AddressEntry* entry = tables_.addresses.find(plain);
    if (entry == nullptr) return {};
    url = entry->current;
    route = entry->routes[entry->current];
  }
  const std::uint32_t connection = route.module->connection(route.peer);
  if (connection == 0) return {};
  const std::uint64_t mark = connection_mark(connection);
  static_assert(kPeerBits == kPeerNumberBits);
  return Address(plain.value | url << kPeerBits | mark << (kPeerBits + kUrlBits));
}

void Core::disconnect(Address peer) {
  if (mark_of(peer) != 0 && bound(peer) != peer) return;
  for (const Route& route : tables_.routes_of(peer)) route.module->disconnect(route.peer);
}

void Core::admit(Address peer) {
  for (const Route& route : tables_.routes_of(peer)) route.module->admit(route.peer);
}

void Core::set_link_key(Address peer, const Key& key) {
  if (mark_of(peer) != 0 && bound(peer) != peer) return;
  if (const auto route = tables_.current_route(peer)) route->module->set_link_key(route->peer, mark_of(peer), key);
}

void Core::prefer_next_url(Address peer) {
  const std::lock_guard lock(tables_.mutex);
  AddressEntry* entry = tables_.addresses.find(unbound(peer));
  if (entry != nullptr) entry->current = (entry->current + 1) % static_cast<std::uint32_t>(entry->routes.size());
}

void Core::prefer_first_url(Address peer) {
  const std::lock_guard lock(tables_.mutex);
  if (AddressEntry* entry = tables_.addresses.find(unbound(peer))) entry->current = 0;
}

Result<void> Core::pass_descriptor(Address peer, Tag tag, int fd) {
  if (mark_of(peer) != 0 && bound(peer) != peer) return Error(Errc::kConnectionLost, "the peer has come back");
  const std::optional<Route> route = tables_.current_route(peer);
  if (!route) return Error(Errc::kConnectionLost, "the peer is gone");
  return route->module->pass_descriptor(route->peer, tag, fd);
}

Result<UniqueFd> Core::take_descriptor(Address peer, Tag tag) {
  if (mark_of(peer) != 0 && bound(peer) != peer) return Error(Errc::kConnectionLost, "the peer has come back");
  const std::optional<Route> route = tables_.current_route(peer);
  if (!route) return Error(Errc::kConnectionLost, "the peer is gone");
  return route->module->take_descriptor(route->peer, tag);
}

Address Core::ModuleSink::inbound(PeerId peer, ContextId context) {
  const std::lock_guard lock(core_.tables_.mutex);
  const Address address = core_.tables_.addresses.reserve();
  core_.tables_.addresses.add(address, {Route{&module_, peer, module_.abilities().sends_at_once}}, context);
  return address;
}

void Core::ModuleSink::unexpected(PeerId peer, Address address, Tag tag, Buffer payload, std::uint64_t charge) {
  {
    const std::lock_guard lock(core_.tables_.mutex);
    const AddressEntry* entry = core_.tables_.addresses.find(address);
    Context* context = entry == nullptr ? nullptr : core_.tables_.contexts.find(entry->context);
    if (context != nullptr) {
      context->messages().push_back(
          QueuedMessage{UnexpectedMessage{address, tag, std::move(payload)}, &module_, peer, charge});
      context->signal();
      return;
    }
  }
  module_.consumed(peer, charge);  // no context listens any more: the message is dropped
}

void Core::ModuleSink::forgotten(PeerId /*peer*/, Address address) {
  const std::lock_guard lock(core_.tables_.mutex);
  // Otherwise peers that connect, send and leave could leave more behind than connected peers may.
  std::ignore = core_.tables_.take_messages_of(address);
  core_.tables_.addresses.remove(address);
}

}  // namespace spate::bmi
