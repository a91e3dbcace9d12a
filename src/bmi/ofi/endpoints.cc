// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/endpoints.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "log/fields.h"
#include "log/log.h"

namespace spate::bmi::ofi {
namespace {

struct Deaf final : WireClient {
  void on_packet(ByteView) override {}
  void on_sent(Route&, bool) override {}
  void on_read(void*, bool) override {}
};

}  // namespace

WireOptions Endpoints::wire_options(const Target& target) const {
  WireOptions options;
  options.provider = target.provider;
  options.node = target.node;
  options.service = target.service;
  options.packet_bytes = options_.packet_bytes;
  options.receive_packets = options_.receive_packets;
  options.pins.page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  options.pins.max_bytes = options_.max_pinned_bytes;
  return options;
}

Result<Endpoint*> Endpoints::add(const WireOptions& options, std::string suffix) {
  SPATE_TRY(std::unique_ptr<Wire> wire, Wire::open(options, pages_.get()));
  Endpoint& endpoint = all_.emplace_back();
  endpoint.wire = std::move(wire);
  endpoint.suffix = std::move(suffix);
  if (Result<void> watched = watch(endpoint); !watched) {
    all_.pop_back();
    return watched.error();
  }
  // Memory that cannot be registered moves like any other memory.
  for (const MutableByteView memory : registered_) (void)endpoint.wire->pins().keep(memory).has_value();
  pending_peers_.wake();
  return &endpoint;
}

Result<void> Endpoints::watch(Endpoint& endpoint) {
  endpoint.watched_fd = endpoint.wire->wait_descriptor();
  if (endpoint.watched_fd < 0) return {};
  if (events_.add(endpoint.watched_fd, EPOLLIN, nullptr)) return {};
  endpoint.watched_fd = -1;
  return errno_error(errno, "epoll_ctl");
}

Result<Endpoint*> Endpoints::listen(const Target& target) {
  WireOptions options = wire_options(target);
  options.bind = target.kind != Target::Kind::kAny;
  if (options.service == "0") options.service.clear();
  SPATE_TRY(Endpoint * endpoint, add(options, target.suffix));
  endpoint->listens = true;
  return endpoint;
}

Result<Endpoint*> Endpoints::outbound(const Target& target) {
  const std::string key = target.provider + " " + target.node;
  const auto known = outbound_.find(key);
  if (known != outbound_.end()) return known->second;
  WireOptions options = wire_options(target);
  SPATE_TRY(const std::string device, Wire::device_for(options));
  Endpoint* found = nullptr;
  for (Endpoint& endpoint : all_) {
    if (!endpoint.listens && endpoint.wire->provider() == target.provider && endpoint.wire->device() == device)
      found = &endpoint;
  }
  if (found == nullptr) {
    if (target.kind == Target::Kind::kName) options.node.clear();
    SPATE_TRY(found, add(options, target.suffix));
  }
  outbound_.emplace(key, found);
  return found;
}

Endpoint& Endpoints::of(const Wire& wire) {
  return *std::ranges::find_if(all_, [&](const Endpoint& endpoint) { return endpoint.wire.get() == &wire; });
}

Result<void> Endpoints::reopen(Endpoint& endpoint) {
  if (endpoint.watched_fd >= 0) events_.remove(endpoint.watched_fd);
  quieten(*endpoint.wire);
  SPATE_TRY(std::ignore, endpoint.wire->reopen(endpoint.listens || endpoint.wire->on_this_host()));
  return watch(endpoint);
}

bool Endpoints::parting() const {
  return std::ranges::any_of(all_, [](const Endpoint& endpoint) { return endpoint.wire->parting(); });
}

void Endpoints::drop_parting() {
  for (Endpoint& endpoint : all_) endpoint.wire->drop_parting();
}

void Endpoints::close(MonoTime end) {
  Deaf deaf;
  for (Endpoint& endpoint : all_) {
    while ((endpoint.wire->packets_in_flight() > 0 || endpoint.wire->parting()) && clock_.now() < end)
      endpoint.wire->poll(deaf);
    quieten(*endpoint.wire);
  }
  all_.clear();
}

/// Receives and drops everything that still arrives, if the endpoint may only be closed after that.
void Endpoints::quieten(Wire& wire) {
  constexpr Duration kQuiet = std::chrono::milliseconds(50);
  constexpr Duration kTimeout = std::chrono::milliseconds(250);
  if (!wire.closes_quietly_only()) return;
  Deaf deaf;
  const MonoTime last = clock_.now() + kTimeout;
  MonoTime quiet = clock_.now() + kQuiet;
  while (clock_.now() < std::min(quiet, last)) {
    if (wire.poll(deaf)) quiet = clock_.now() + kQuiet;
  }
}

// --- registration ---

void Endpoints::watch_pages() {
  if (!options_.watch_pages) return;
  Result<std::unique_ptr<PageWatch>> watch = PageWatch::start();
  if (watch) {
    pages_ = std::move(*watch);
  } else {
    SPATE_LOG("bmi/ofi", info, "registrations are not cached: the kernel does not report unmapped pages error={}",
              watch.error());
  }
}

void Endpoints::look_at_pages() {
  if (pages_ == nullptr) return;
  pages_->take_ended([this](const PageRange& range) {
    for (Endpoint& endpoint : all_) endpoint.wire->pins().invalidate(range);
  });
}

Result<void> Endpoints::keep(MutableByteView memory) {
  registered_.push_back(memory);
  Result<void> all;
  look_at_pages();
  for (Endpoint& endpoint : all_) {
    if (Result<void> kept = endpoint.wire->pins().keep(memory); !kept) all = kept;
  }
  return all;
}

void Endpoints::drop(MutableByteView memory) {
  const auto same = [&](MutableByteView other) {
    return other.data() == memory.data() && other.size() == memory.size();
  };
  const auto found = std::ranges::find_if(registered_, same);
  if (found == registered_.end()) return;
  registered_.erase(found);
  for (Endpoint& endpoint : all_) endpoint.wire->pins().drop(memory);
}

PinCounters Endpoints::pin_counters() const {
  PinCounters sum;
  for (const Endpoint& endpoint : all_) {
    const PinCounters& one = endpoint.wire->pins().counters();
    sum.hits += one.hits;
    sum.misses += one.misses;
    sum.evictions += one.evictions;
    sum.merges += one.merges;
    sum.invalidations += one.invalidations;
    sum.refused += one.refused;
    sum.pinned_bytes += one.pinned_bytes;
    sum.unpinned_bytes += one.unpinned_bytes;
  }
  return sum;
}

}  // namespace spate::bmi::ofi
