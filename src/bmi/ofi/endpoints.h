// SPDX-License-Identifier: Apache-2.0
// Endpoints: the endpoints of the ofi module, and the memory that is registered with them.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bmi/ofi/ofi_module.h"
#include "bmi/ofi/pending_peers.h"
#include "bmi/ofi/url.h"
#include "bmi/ofi/wire.h"
#include "bmi/page_watch.h"
#include "bmi/protocol/event_set.h"

namespace spate::bmi::ofi {

/// A wire and what the module knows of it. It lives as long as the module.
struct Endpoint {
  std::unique_ptr<Wire> wire;
  std::string suffix;
  ContextId context;  // of the listener that the endpoint serves
  bool listens = false;
  int watched_fd = -1;
  std::vector<std::pair<protocol::Op*, bool>> ended_reads;  // with shm; they are handled after the next poll
};

/// Each URL that the module listens on has an endpoint of its own. Outbound peers share one endpoint per device.
/// The module's lock guards it. Life cycle: construct -> watch_pages() -> other calls -> close() -> destroyed.
/// close() waits a limited time for the last packets of closed routes, since such a packet may announce the end of a
/// session.
class Endpoints {
 public:
  Endpoints(const Clock& clock, const OfiOptions& options, protocol::EventSet& events, PendingPeers& pending_peers)
      : clock_(clock), options_(options), events_(events), pending_peers_(pending_peers) {}
  Endpoints(const Endpoints&) = delete;
  Endpoints& operator=(const Endpoints&) = delete;

  /// Watches the pages of registered memory, if the kernel can report their end.
  void watch_pages();
  /// Lets last packets leave until `end` at most, waits up to 250 ms more for each endpoint of verbs, and closes all.
  void close(MonoTime end);

  /// Returns an endpoint that listens at the URL.
  Result<Endpoint*> listen(const Target& target);
  /// Returns an endpoint that reaches the target.
  Result<Endpoint*> outbound(const Target& target);
  Endpoint& of(const Wire& wire);
  std::list<Endpoint>& all() { return all_; }
  const std::list<Endpoint>& all() const { return all_; }
  /// Closes the endpoint and opens a new one: see Wire::reopen.
  Result<void> reopen(Endpoint& endpoint);
  bool parting() const;
  void drop_parting();

  // See Module::mem_register.
  Result<void> keep(MutableByteView memory);
  void drop(MutableByteView memory);
  /// Handles the reports of pages that went away. Call it before each use of a registration.
  void look_at_pages();
  PinCounters pin_counters() const;

 private:
  WireOptions wire_options(const Target& target) const;
  Result<Endpoint*> add(const WireOptions& options, std::string suffix);
  Result<void> watch(Endpoint& endpoint);
  void quieten(Wire& wire);

  const Clock& clock_;
  const OfiOptions& options_;
  protocol::EventSet& events_;
  PendingPeers& pending_peers_;
  std::unique_ptr<PageWatch> pages_;
  std::list<Endpoint> all_;
  std::map<std::string, Endpoint*> outbound_;  // by provider and host
  std::vector<MutableByteView> registered_;    // registered explicitly; later endpoints register it, too
};

}  // namespace spate::bmi::ofi
