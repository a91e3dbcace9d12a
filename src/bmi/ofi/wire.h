// SPDX-License-Identifier: Apache-2.0
// Wire: one endpoint of a libfabric provider with its queue, addresses, packet buffers and registrations. Only this
// part of the module uses libfabric.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/result.h"
#include "bmi/ofi/packet.h"
#include "bmi/pin_cache.h"

namespace spate::bmi::ofi {

struct PacketBuffer;

/// The way from this endpoint to another one. The wire owns it and frees it some time after close_route().
struct Route {
  std::uint64_t fabric_address = 0;
  void* owner = nullptr;            // null: closed
  Bytes name;                       // as the provider gives it
  std::uint32_t in_flight = 0;      // packets
  PacketBuffer* refused = nullptr;  // filled, but the provider could not take it yet: goes first
  bool same_process = false;
  bool failed = false;  // the provider refuses to send there: lose the peer
  // Its connection has failed, and it makes no other one while the endpoint is open.
  bool broken = false;
};

/// Receives the events of a wire, from inside poll().
class WireClient {
 public:
  virtual ~WireClient() = default;
  virtual void on_packet(ByteView packet) = 0;
  /// A packet has left or, if `good` is false, never will. Not called for closed routes.
  virtual void on_sent(Route& route, bool good) = 0;
  /// A read that read() began has ended: nothing of it is in flight any more.
  virtual void on_read(void* who, bool good) = 0;
};

struct WireOptions {
  std::string provider;  // libfabric's name: "tcp;ofi_rxm"
  std::string node;      // to bind to or to reach; empty: the provider's choice
  std::string service;
  bool bind = false;                 // node and service are this side's
  std::size_t packet_bytes = 16128;  // at most
  std::size_t receive_packets = 128;
  std::size_t send_packets = 512;  // at most
  PinCache::Options pins;
};

/// Pinned. Not thread-safe: the module's lock guards it, as FI_THREAD_DOMAIN demands. Life cycle: open() -> routes,
/// packets and reads -> destroyed, which closes the endpoint.
class Wire final : public Registrar {
 public:
  /// kUnreachable: the provider cannot reach the address; kExists: the address is in use; kNotSupported: libfabric has
  /// no such provider, or the provider lacks a required feature. `watch` may be null.
  static Result<std::unique_ptr<Wire>> open(const WireOptions& options, PageWatcher* watch);
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  ~Wire() override;

  const std::string& provider() const { return options_.provider; }
  /// The device and network of the endpoint. Two wires of one device can replace each other.
  const std::string& device() const { return device_; }
  const Bytes& name() const { return name_; }
  /// "host:port" or a name on this host, where the provider's addresses are such; else empty.
  std::string text_of(ByteView name) const;
  /// The device that open() would take; errors as open()'s.
  static Result<std::string> device_for(const WireOptions& options);
  /// ofi_rxm over verbs, in libfabric 1.17, ends the process if its endpoint is closed before poll() has seen
  /// everything that arrived. Call poll() until it finds nothing, then close.
  bool closes_quietly_only() const { return options_.provider.starts_with("verbs"); }
  bool on_this_host() const { return options_.provider == "shm"; }
  /// Readable when poll() may find something; -1: the provider cannot sleep.
  int wait_descriptor() const { return wait_fd_; }
  /// False: do not sleep, poll() first.
  bool may_sleep();

  Route* open_route(ByteView name, void* owner);
  /// Closes a route. The packet that it still holds (route.refused) is sent when the provider accepts it, since the
  /// last packet of a session announces its end.
  void close_route(Route& route);
  /// A closed route still holds its last packet; poll() tries again. drop_parting(): no longer.
  bool parting() const { return !parting_.empty(); }
  void drop_parting();
  /// Calls on_...() for each event, at most some hundred. Returns whether there was any.
  bool poll(WireClient& client);

  std::size_t packet_bytes() const { return options_.packet_bytes; }
  /// Room for one packet. Null: too many are in flight.
  PacketBuffer* take_buffer();
  void give_buffer(PacketBuffer& buffer);
  static std::byte* data_of(PacketBuffer& buffer);
  /// Sends the buffer's first `size` bytes. False: not yet; the wire keeps it as route.refused, and resend() tries
  /// again.
  bool send(Route& route, PacketBuffer& buffer, std::size_t size);
  bool resend(Route& route);
  /// Packets sent and not yet gone, of all routes.
  std::size_t packets_in_flight() const { return in_flight_; }

  /// Whether the provider supports RMA.
  bool reads() const { return reads_; }
  std::size_t max_pieces() const { return max_pieces_; }
  enum class Begun : std::uint8_t { kYes, kNotYet, kNo };
  /// Reads `size` bytes at (key, address) of the peer into `pieces` (which add up to it; `descriptors`: of the regions
  /// that hold them, from descriptor_of()). on_read(who) tells of its end.
  Begun read(Route& route, std::span<const iovec> pieces, std::span<void* const> descriptors, const Extent& from,
             void* who);
  std::size_t reads_in_flight() const { return reads_in_flight_.size(); }
  /// Closes the endpoint and opens a new one. This is the only way to make sure that a read which does not end no
  /// longer touches its memory. At another address peers treat it as a stranger, whatever they remember of the old one.
  /// It reports no ends of operations, and every route is dead.
  Result<void> reopen(bool at_its_address);

  /// Registrations of the caller's memory. local_needed(): the provider asks for one where data is read to, too.
  PinCache& pins() { return *pins_; }
  const PinCache& pins() const { return *pins_; }
  bool local_needed() const { return local_needed_; }
  Extent extent_of(const PinCache::Region& region, const std::byte* data, std::uint64_t size) const;
  void* descriptor_of(const PinCache::Region& region) const;

  Result<void*> pin(const PageRange& range) override;
  void unpin(void* handle) override;

 private:
  struct Fabric;
  struct ReadSlot;

  explicit Wire(WireOptions options);
  Result<void> find_provider();
  Result<void> open_domain();
  Result<void> open_endpoint();
  Result<void> learn_name();
  Result<void> add_slab(std::size_t packets, std::vector<PacketBuffer*>& out);
  Result<void> post_receive(PacketBuffer& buffer);
  long post_send(Route& route, PacketBuffer& buffer);
  void on_completion(WireClient& client, void* context, std::size_t length, bool good);
  void on_failed_completion(WireClient& client);
  void ended_send(WireClient& client, PacketBuffer& buffer, bool good);
  void ended_read(WireClient& client, ReadSlot& read, bool good);
  void forget_if_unused(Route& route);
  void send_parting();
  bool insert_address(Route& route);
  void remove_address(const Route& route);
  std::uint64_t new_key();

  WireOptions options_;
  std::unique_ptr<Fabric> fabric_;
  std::string device_;
  Bytes name_;
  int wait_fd_ = -1;
  bool reads_ = false;
  bool local_needed_ = false;
  bool virtual_addresses_ = false;
  bool provider_keys_ = false;
  std::size_t max_pieces_ = 1;
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> slab_memory_;
  std::vector<std::unique_ptr<std::vector<PacketBuffer>>> slabs_;
  std::vector<PacketBuffer*> receive_buffers_;
  std::vector<PacketBuffer*> free_buffers_;
  std::size_t send_buffers_ = 0;
  std::size_t in_flight_ = 0;
  std::list<std::unique_ptr<Route>> routes_;
  std::vector<Route*> parting_;               // closed, with a refused packet
  std::map<Bytes, std::uint64_t> known_;      // addresses that the provider was given, by name
  std::deque<Bytes> known_order_;             // the oldest first
  std::unordered_set<std::uint64_t> worked_;  // addresses that something has been sent to
  std::list<ReadSlot> reads_in_flight_;       // in the order of their beginning
  std::unique_ptr<PinCache> pins_;
};

/// The providers that this host's libfabric has, for messages; empty when it cannot say.
std::string known_providers();

}  // namespace spate::bmi::ofi
