// SPDX-License-Identifier: Apache-2.0
// Wire: one endpoint of a libfabric provider with its queue, addresses, packet buffers and registrations. Only wire.cc
// and its parts (domain.h, address_book.h, packet_pool.h, fabric.h) use libfabric.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/result.h"
#include "bmi/ofi/domain.h"
#include "bmi/ofi/fabric.h"
#include "bmi/ofi/packet.h"
#include "bmi/pin_cache.h"

namespace spate::bmi::ofi {

struct ReadSlot;

/// Receives the events of a wire, from inside poll(). It may use the wire, but must not call poll(), reopen() or
/// destroy it.
class WireClient {
 public:
  virtual ~WireClient() = default;
  /// A packet has come. Its memory is valid until the call returns.
  virtual void on_packet(ByteView packet) = 0;
  /// A packet has left or, if `good` is false, never will. Not called for closed routes.
  virtual void on_sent(Route& route, bool good) = 0;
  /// A read that read() began has ended: nothing of it is in flight any more.
  virtual void on_read(void* who, bool good) = 0;
};

/// Pinned. Not thread-safe: the module's lock guards it, as FI_THREAD_DOMAIN demands. Life cycle: open() -> routes,
/// packets and reads -> destroyed, which closes the endpoint.
///
/// The calls about memory and devices are those of Domain, and packet buffers are those of PacketPool. Wire passes them
/// on because their headers include libfabric's.
class Wire {
 public:
  /// kUnreachable: the provider cannot reach the address; kExists: the address is in use; kNotSupported: libfabric has
  /// no such provider, or the provider lacks a required feature. `watch` may be null.
  static Result<std::unique_ptr<Wire>> open(const WireOptions& options, PageWatcher* watch);
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  ~Wire();

  const std::string& provider() const { return options_.provider; }
  /// The device and network of the endpoint. Two wires of one device can replace each other.
  const std::string& device() const;
  const Bytes& name() const { return name_; }
  /// "host:port" or a name on this host, if the provider's addresses have such a form; else empty.
  std::string text_of(ByteView name) const;
  /// The device that open() would take; errors as open()'s.
  static Result<std::string> device_for(const WireOptions& options);
  /// ofi_rxm over verbs, in libfabric 1.17, ends the process if its endpoint is closed before poll() has seen
  /// everything that arrived. Call poll() until it finds nothing, then close.
  bool closes_quietly_only() const { return options_.provider.starts_with("verbs"); }
  bool on_this_host() const { return options_.on_this_host(); }
  /// Readable when poll() may find something; -1: the provider cannot sleep.
  int wait_descriptor() const { return wait_fd_; }
  /// False: the caller must not sleep, but call poll() first.
  bool may_sleep();

  Route* open_route(ByteView name, void* owner);
  /// Closes a route. A packet that it holds (route.refused) may announce the end of a session, so it is sent later,
  /// when the provider accepts it; it is dropped with shm, or if 64 closed routes hold one already.
  void close_route(Route& route);
  /// Whether a closed route still holds its last packet, which poll() tries to send again. drop_parting() drops such
  /// packets.
  bool parting() const { return !parting_.empty(); }
  void drop_parting();
  /// Calls the functions of `client` for each event, a few hundred at most. Returns whether there was any.
  bool poll(WireClient& client);

  std::size_t packet_bytes() const { return options_.packet_bytes; }
  /// Room for one packet. Null: too many are in flight.
  PacketBuffer* take_buffer();
  void give_buffer(PacketBuffer& buffer);
  static std::byte* data_of(PacketBuffer& buffer);
  /// Sends the buffer's first `size` bytes. False: they have not left. Either route.failed is set now, or the provider
  /// is busy: then the wire keeps the buffer as route.refused, and resend() tries again.
  bool send(Route& route, PacketBuffer& buffer, std::size_t size);
  bool resend(Route& route);
  /// Packets of all routes that are in flight.
  std::size_t packets_in_flight() const { return in_flight_; }

  /// Whether the provider supports RMA.
  bool reads() const;
  std::size_t max_pieces() const;
  enum class Begun : std::uint8_t { kYes, kNotYet, kNo };
  /// Reads the extent `from` of the peer's memory into `pieces`, whose sizes add up to its size. `descriptors`: of the
  /// regions with the pieces (descriptor_of()). kYes: on_read(who) will report the end; kNo: it is impossible.
  Begun read(Route& route, std::span<const iovec> pieces, std::span<void* const> descriptors, const Extent& from,
             void* who);
  /// Closes the endpoint and opens a new one, the only way to make sure that a read which does not end no longer
  /// touches its memory. At another address, peers treat the endpoint as an unauthenticated peer. The ends of
  /// operations are not reported, and every route is dead.
  Result<void> reopen(bool at_its_address);

  /// Registrations of the caller's memory. local_needed(): the provider demands one also for memory that reads go to.
  PinCache& pins();
  bool local_needed() const;
  Extent extent_of(const PinCache::Region& region, const std::byte* data, std::uint64_t size) const;
  void* descriptor_of(const PinCache::Region& region) const;

 private:
  struct Parts;

  explicit Wire(const WireOptions& options);
  Result<void> open_endpoint();
  void close_endpoint();
  Result<void> learn_name();
  Result<void> post_receive(PacketBuffer& buffer);
  long post_send(Route& route, PacketBuffer& buffer);
  void on_completion(WireClient& client, void* context, std::size_t length, bool good);
  void on_failed_completion(WireClient& client);
  void ended_send(WireClient& client, PacketBuffer& buffer, bool good);
  void ended_read(WireClient& client, ReadSlot& read, bool good);
  void send_parting();

  std::unique_ptr<Parts> parts_;
  const WireOptions& options_;  // of parts_
  Bytes name_;
  int wait_fd_ = -1;
  std::size_t in_flight_ = 0;
  std::vector<Route*> parting_;  // closed, with a refused packet
};

}  // namespace spate::bmi::ofi
