// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "bmi/ofi/address_book.h"
#include "bmi/ofi/domain.h"
#include "bmi/ofi/fabric.h"
#include "bmi/ofi/packet_pool.h"

namespace spate::bmi::ofi {
namespace {

constexpr std::size_t kQueueSize = 1024;

/// The descriptor of the net provider is always readable in libfabric 1.17, so a thread could not sleep on it.
bool may_have_descriptor(const WireOptions& options) { return options.provider != "net"; }

/// Opens the completion queue. `sleeps` becomes true if the queue has a descriptor to sleep on, which depends on the
/// provider.
Result<Fid<fid_cq>> open_queue(const Domain& domain, bool& sleeps) {
  fi_cq_attr options{};
  options.format = FI_CQ_FORMAT_MSG;
  options.size = kQueueSize;
  fid_cq* queue = nullptr;
  int failed = 0;
  for (const fi_wait_obj wait : {FI_WAIT_FD, FI_WAIT_NONE}) {
    if (wait == FI_WAIT_FD && !may_have_descriptor(domain.options())) continue;
    options.wait_obj = wait;
    failed = fi_cq_open(&domain.get(), &options, &queue, nullptr);
    sleeps = failed == 0 && wait == FI_WAIT_FD;
    if (failed == 0) break;
  }
  if (failed != 0) return fabric_error(failed, "fi_cq_open");
  return Fid<fid_cq>(queue);
}

}  // namespace

/// The parts in the order in which they are opened. They are closed in reverse, except the registrations of callers'
/// memory; see ~Wire.
struct Wire::Parts {
  explicit Parts(const WireOptions& options) : domain(options), packets(domain), addresses(options.on_this_host()) {}

  Domain domain;
  PacketPool packets;
  AddressBook addresses;
  Fid<fid_cq> queue;
  Fid<fid_ep> endpoint;
  std::list<ReadSlot> reads;  // in flight, in the order of their beginning
};

Wire::Wire(const WireOptions& options) : parts_(std::make_unique<Parts>(options)), options_(parts_->domain.options()) {}

Result<std::unique_ptr<Wire>> Wire::open(const WireOptions& options, PageWatcher* watch) {
  std::unique_ptr<Wire> wire(new Wire(options));
  SPATE_TRY(std::ignore, wire->parts_->domain.find_provider());
  SPATE_TRY(std::ignore, wire->parts_->domain.open(watch));
  SPATE_TRY(std::ignore, wire->parts_->packets.open());
  SPATE_TRY(std::ignore, wire->open_endpoint());
  return wire;
}

Wire::~Wire() {
  close_endpoint();
  // Registrations of callers' memory end while the domain exists. Nothing uses them any more, since the endpoint is
  // closed first.
  parts_->domain.close_pins();
}

void Wire::close_endpoint() {
  ShmNames& local = ShmNames::of_this_process();
  const std::lock_guard lock(local.mutex);
  if (on_this_host()) local.names.erase(name_);
  parts_->endpoint.reset();
}

const std::string& Wire::device() const { return parts_->domain.device(); }
bool Wire::reads() const { return parts_->domain.reads(); }
std::size_t Wire::max_pieces() const { return parts_->domain.max_pieces(); }
bool Wire::local_needed() const { return parts_->domain.local_needed(); }
PinCache& Wire::pins() { return parts_->domain.pins(); }
void* Wire::descriptor_of(const PinCache::Region& region) const { return parts_->domain.descriptor_of(region); }
Extent Wire::extent_of(const PinCache::Region& region, const std::byte* data, std::uint64_t size) const {
  return parts_->domain.extent_of(region, data, size);
}

PacketBuffer* Wire::take_buffer() { return parts_->packets.take(); }
void Wire::give_buffer(PacketBuffer& buffer) { parts_->packets.give(buffer); }
std::byte* Wire::data_of(PacketBuffer& buffer) { return buffer.data; }

Result<void> Wire::open_endpoint() {
  Domain& domain = parts_->domain;
  SPATE_TRY(std::ignore, parts_->addresses.open(domain.get()));
  bool sleeps = false;
  SPATE_TRY(parts_->queue, open_queue(domain, sleeps));
  wait_fd_ = -1;
  if (sleeps && fi_control(&parts_->queue->fid, FI_GETWAIT, &wait_fd_) != 0) wait_fd_ = -1;
  fid_ep* endpoint = nullptr;
  int failed = fi_endpoint(&domain.get(), &domain.info(), &endpoint, nullptr);
  if (failed != 0) return fabric_error(failed, "fi_endpoint");
  parts_->endpoint.reset(endpoint);
  const bool named = on_this_host() && options_.bind && !options_.node.empty();
  std::string wanted = "fi_shm://" + options_.node;
  if (named) {
    // If this process uses the name already, the provider would share it instead of refusing it.
    ShmNames& local = ShmNames::of_this_process();
    const std::lock_guard lock(local.mutex);
    if (local.names.contains(Bytes(as_bytes(wanted).begin(), as_bytes(wanted).end()))) {
      return Error(Errc::kExists, wanted + " is in use");
    }
    failed = fi_setname(&endpoint->fid, wanted.data(), wanted.size() + 1);
  }
  if (failed == 0) failed = fi_ep_bind(endpoint, &parts_->addresses.get().fid, 0);
  if (failed == 0) failed = fi_ep_bind(endpoint, &parts_->queue->fid, FI_TRANSMIT | FI_RECV);
  if (failed == 0) failed = fi_enable(endpoint);
  if (failed != 0) return fabric_error(failed, "opening an endpoint of " + options_.provider);
  SPATE_TRY(std::ignore, learn_name());
  for (PacketBuffer* buffer : parts_->packets.receive()) {
    if (Result<void> posted = post_receive(*buffer); !posted) return posted;
  }
  return {};
}

Result<void> Wire::learn_name() {
  name_.resize(kMaxAddress);
  std::size_t size = name_.size();
  const int failed = fi_getname(&parts_->endpoint->fid, name_.data(), &size);
  if (failed != 0) return fabric_error(failed, "fi_getname");
  name_.resize(size);
  if (!on_this_host()) return {};
  while (!name_.empty() && name_.back() == std::byte{0}) name_.pop_back();
  ShmNames& local = ShmNames::of_this_process();
  const std::lock_guard lock(local.mutex);
  local.names.insert(name_);
  return {};
}

Result<std::string> Wire::device_for(const WireOptions& options) {
  Domain domain(options);
  SPATE_TRY(std::ignore, domain.find_provider());
  return domain.device();
}

std::string Wire::text_of(ByteView name) const {
  constexpr std::size_t kPrefix = kShmPrefix.size();
  if (on_this_host()) return name.size() < kPrefix ? std::string() : std::string(as_text(name.subspan(kPrefix)));
  char ip[INET6_ADDRSTRLEN] = "";
  if (parts_->domain.info().addr_format == FI_SOCKADDR_IN && name.size() >= sizeof(sockaddr_in)) {
    sockaddr_in v4{};
    std::memcpy(&v4, name.data(), sizeof v4);
    inet_ntop(AF_INET, &v4.sin_addr, ip, sizeof ip);
    return std::string(ip) + ":" + std::to_string(ntohs(v4.sin_port));
  }
  if (parts_->domain.info().addr_format == FI_SOCKADDR_IN6 && name.size() >= sizeof(sockaddr_in6)) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, name.data(), sizeof v6);
    inet_ntop(AF_INET6, &v6.sin6_addr, ip, sizeof ip);
    return "[" + std::string(ip) + "]:" + std::to_string(ntohs(v6.sin6_port));
  }
  return {};
}

Result<void> Wire::reopen(bool at_its_address) {
  const std::string node = text_of(name_);
  close_endpoint();
  parts_->queue.reset();
  parts_->addresses.close();
  parts_->reads.clear();
  parting_.clear();
  in_flight_ = 0;
  parts_->packets.take_all_back();
  // The endpoint gets the address that it had before, even if the provider chose it.
  if (on_this_host()) {
    parts_->domain.bind_to_node(node, at_its_address);
  } else if (at_its_address) {
    parts_->domain.bind_to(name_);
  }
  return open_endpoint();
}

bool Wire::may_sleep() {
  if (wait_fd_ < 0) return true;  // the caller sleeps by the clock
  fid* waited = &parts_->queue->fid;
  return fi_trywait(&parts_->domain.fabric(), &waited, 1) == FI_SUCCESS;
}

Route* Wire::open_route(ByteView name, void* owner) { return parts_->addresses.open_route(name, name_, owner); }

void Wire::close_route(Route& route) {
  constexpr std::size_t kParting = 64;  // they hold packets that others need
  route.owner = nullptr;
  // Not with shm: there the other process's memory is unmapped together with the route.
  const bool parts = route.refused != nullptr && !route.failed && !on_this_host() && parting_.size() < kParting;
  if (parts) return parting_.push_back(&route);
  if (route.refused != nullptr) parts_->packets.give(*std::exchange(route.refused, nullptr));
  parts_->addresses.forget_if_unused(route);
}

void Wire::send_parting() {
  std::vector<Route*> left;
  for (Route* route : std::exchange(parting_, {})) {
    (void)resend(*route);
    if (route->refused != nullptr) {
      left.push_back(route);
    } else {
      parts_->addresses.forget_if_unused(*route);
    }
  }
  parting_ = std::move(left);
}

void Wire::drop_parting() {
  for (Route* route : std::exchange(parting_, {})) {
    parts_->packets.give(*std::exchange(route->refused, nullptr));
    parts_->addresses.forget_if_unused(*route);
  }
}

Result<void> Wire::post_receive(PacketBuffer& buffer) {
  const long failed = fi_recv(parts_->endpoint.get(), buffer.data, options_.packet_bytes, buffer.descriptor,
                              FI_ADDR_UNSPEC, &buffer.fabric);
  if (failed != 0) return fabric_error(failed, "fi_recv");
  return {};
}

long Wire::post_send(Route& route, PacketBuffer& buffer) {
  if (!route.same_process) {
    return fi_send(parts_->endpoint.get(), buffer.data, buffer.size, buffer.descriptor, route.fabric_address,
                   &buffer.fabric);
  }
  ShmNames& local = ShmNames::of_this_process();
  const std::lock_guard lock(local.mutex);
  if (!local.names.contains(route.name)) return -FI_ECONNRESET;
  return fi_send(parts_->endpoint.get(), buffer.data, buffer.size, buffer.descriptor, route.fabric_address,
                 &buffer.fabric);
}

bool Wire::send(Route& route, PacketBuffer& buffer, std::size_t size) {
  SPATE_CHECK(route.refused == nullptr);
  buffer.route = &route;
  buffer.size = size;
  route.refused = &buffer;
  return resend(route);
}

bool Wire::resend(Route& route) {
  if (route.refused == nullptr) return true;
  PacketBuffer& buffer = *route.refused;
  const long failed = post_send(route, buffer);
  if (failed == -FI_EAGAIN) return false;
  route.refused = nullptr;
  if (failed != 0) {
    parts_->packets.give(buffer);
    route.failed = true;
    return false;
  }
  ++route.in_flight;
  ++in_flight_;
  return true;
}

Wire::Begun Wire::read(Route& route, std::span<const iovec> pieces, std::span<void* const> descriptors,
                       const Extent& from, void* who) {
  parts_->reads.emplace_back();
  ReadSlot& read = parts_->reads.back();
  read.kind = Context::Kind::kRead;
  read.who = who;
  read.route = &route;
  read.self = std::prev(parts_->reads.end());
  fi_rma_iov remote{};
  remote.addr = from.address;
  remote.len = from.size;
  remote.key = from.key;
  fi_msg_rma message{};
  message.msg_iov = pieces.data();
  message.desc = const_cast<void**>(descriptors.data());
  message.iov_count = pieces.size();
  message.addr = route.fabric_address;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &read.fabric;
  long failed = -FI_ECONNRESET;
  if (!route.same_process) {
    failed = fi_readmsg(parts_->endpoint.get(), &message, FI_COMPLETION);
  } else {
    ShmNames& local = ShmNames::of_this_process();
    const std::lock_guard lock(local.mutex);
    if (local.names.contains(route.name)) failed = fi_readmsg(parts_->endpoint.get(), &message, FI_COMPLETION);
  }
  if (failed == 0) {
    ++route.reads;
    return Begun::kYes;
  }
  parts_->reads.pop_back();
  if (failed == -FI_EAGAIN) return Begun::kNotYet;
  return Begun::kNo;
}

bool Wire::poll(WireClient& client) {
  constexpr int kRounds = 8;
  std::array<fi_cq_msg_entry, 32> entries;  // filled by the provider
  bool did = false;
  if (!parting_.empty()) send_parting();
  for (int round = 0; round < kRounds; ++round) {
    const ssize_t n = fi_cq_read(parts_->queue.get(), entries.data(), entries.size());
    if (n == -FI_EAVAIL) {
      on_failed_completion(client);
      did = true;
      continue;
    }
    if (n <= 0) break;
    did = true;
    for (ssize_t i = 0; i < n; ++i) {
      const fi_cq_msg_entry& entry = entries[static_cast<std::size_t>(i)];
      on_completion(client, entry.op_context, entry.len, true);
    }
    if (n < static_cast<ssize_t>(entries.size())) break;
  }
  return did;
}

void Wire::on_failed_completion(WireClient& client) {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(parts_->queue.get(), &entry, 0) != 1) return;
  void* context = entry.op_context;
  // shm of libfabric 1.17 does not say which read failed. It does reads one after the other, so it was the oldest one.
  if (context == nullptr && !parts_->reads.empty()) context = &parts_->reads.front().fabric;
  if (context == nullptr) return;
  // This is the error of a queue pair in its error state, which ofi_rxm 1.17 continues to use.
  auto* any = reinterpret_cast<Context*>(context);
  const bool flushed = entry.err == FI_EIO || entry.err == FI_ECANCELED;  // this side never cancels a send
  if (flushed && any->kind == Context::Kind::kSend) {
    // A connection that was never up leaves nothing behind, so the other sessions of the endpoint can stay.
    Route& route = *static_cast<PacketBuffer*>(any)->route;
    route.broken = parts_->addresses.was_reached(route);
  }
  on_completion(client, context, 0, false);
}

void Wire::on_completion(WireClient& client, void* context, std::size_t length, bool good) {
  // The context is each operation's first member.
  auto* any = reinterpret_cast<Context*>(context);
  switch (any->kind) {
    case Context::Kind::kReceive: {
      PacketBuffer& buffer = static_cast<PacketBuffer&>(*any);
      if (good) client.on_packet({buffer.data, std::min(length, options_.packet_bytes)});
      (void)post_receive(buffer).has_value();  // the queue has room for all of them
      return;
    }
    case Context::Kind::kSend: return ended_send(client, static_cast<PacketBuffer&>(*any), good);
    case Context::Kind::kRead: return ended_read(client, static_cast<ReadSlot&>(*any), good);
  }
}

void Wire::ended_send(WireClient& client, PacketBuffer& buffer, bool good) {
  Route& route = *buffer.route;
  parts_->packets.give(buffer);
  --in_flight_;
  --route.in_flight;
  if (good) parts_->addresses.reached(route);
  if (route.owner != nullptr) {
    client.on_sent(route, good);
  } else {
    parts_->addresses.forget_if_unused(route);
  }
}

void Wire::ended_read(WireClient& client, ReadSlot& read, bool good) {
  void* const who = read.who;
  Route& route = *read.route;
  --route.reads;
  parts_->reads.erase(read.self);
  client.on_read(who, good);
  parts_->addresses.forget_if_unused(route);
}

}  // namespace spate::bmi::ofi
