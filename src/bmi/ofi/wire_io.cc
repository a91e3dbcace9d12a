// SPDX-License-Identifier: Apache-2.0
// A wire's traffic: routes, packets, reads, completions.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "bmi/ofi/wire_internal.h"

namespace spate::bmi::ofi {
namespace {

constexpr std::string_view kShmPrefix = "fi_shm://";

/// shm takes the process down when it is given the name of an endpoint that does not exist. It believes what it finds
/// in the endpoint's memory, and anybody may make a file there: only this user's and root's are opened.
bool shm_may_open(const std::string& name) {
  struct stat st{};
  const std::string path = "/dev/shm/" + name.substr(std::min(name.size(), kShmPrefix.size()));
  if (::lstat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) return false;
  return st.st_uid == ::geteuid() || st.st_uid == 0;
}

}  // namespace

bool Wire::may_sleep() {
  if (wait_fd_ < 0) return true;  // the caller sleeps by the clock
  fid* waited = &fabric_->queue->fid;
  return fi_trywait(fabric_->fabric.get(), &waited, 1) == FI_SUCCESS;
}

Route* Wire::open_route(ByteView name, void* owner) {
  Bytes address = to_bytes(name);
  bool same_process = false;
  if (options_.provider == "shm") {
    while (!address.empty() && address.back() == std::byte{0}) address.pop_back();
    const std::string text(as_text(address));
    if (!text.starts_with(kShmPrefix) || text.find('/', kShmPrefix.size()) != std::string::npos ||
        !shm_may_open(text)) {
      return nullptr;
    }
    ShmNames& local = ShmNames::of_this_process();
    const std::lock_guard lock(local.mutex);
    same_process = local.names.contains(address);
  } else if (address.size() != name_.size()) {
    return nullptr;
  }
  auto route = std::make_unique<Route>();
  route->owner = owner;
  route->name = address;
  route->same_process = same_process;
  if (!insert_address(*route)) return nullptr;
  routes_.push_back(std::move(route));
  return routes_.back().get();
}

void Wire::close_route(Route& route) {
  constexpr std::size_t kParting = 64;  // they hold packets that others need
  route.owner = nullptr;
  // Not with shm, where the other process's memory goes with it.
  const bool parts = route.refused != nullptr && !route.failed && !on_this_host() && parting_.size() < kParting;
  if (parts) return parting_.push_back(&route);
  if (route.refused != nullptr) free_buffers_.push_back(std::exchange(route.refused, nullptr));
  forget_if_unused(route);
}

void Wire::send_parting() {
  std::vector<Route*> left;
  for (Route* route : std::exchange(parting_, {})) {
    (void)resend(*route);
    if (route->refused != nullptr) {
      left.push_back(route);
    } else {
      forget_if_unused(*route);
    }
  }
  parting_ = std::move(left);
}

void Wire::drop_parting() {
  for (Route* route : std::exchange(parting_, {})) {
    free_buffers_.push_back(std::exchange(route->refused, nullptr));
    forget_if_unused(*route);
  }
}

void Wire::forget_if_unused(Route& route) {
  if (route.owner != nullptr || route.in_flight > 0 || route.refused != nullptr) return;
  const auto reads = [&](const ReadSlot& read) { return read.route == &route; };
  if (std::ranges::any_of(reads_in_flight_, reads)) return;
  remove_address(route);
  std::erase_if(routes_, [&](const std::unique_ptr<Route>& r) { return r.get() == &route; });
}

bool Wire::insert_address(Route& route) {
  const auto known = known_.find(route.name);
  if (known != known_.end()) {
    route.fabric_address = known->second;
    return true;
  }
  Bytes address = route.name;
  address.push_back(std::byte{0});  // for providers whose addresses are text
  fi_addr_t at = FI_ADDR_UNSPEC;
  if (fi_av_insert(fabric_->addresses.get(), address.data(), 1, &at, 0, nullptr) != 1) return false;
  route.fabric_address = at;
  if (on_this_host()) return true;
  known_.emplace(route.name, at);
  known_order_.push_back(route.name);
  return true;
}

/// Called when a route is closed. With shm an address is a mapping of the other side's memory, which must be made
/// again. With other providers it is kept in case the peer comes back: in 1.17 rxm and net lose messages that are sent
/// soon after an address was removed and inserted again. Addresses beyond the limit are removed in the order of their
/// arrival.
void Wire::remove_address(const Route& route) {
  constexpr std::size_t kKept = 4096;
  fi_addr_t at = route.fabric_address;
  const auto uses = [&](const std::unique_ptr<Route>& other) {
    return other.get() != &route && other->fabric_address == at;
  };
  if (on_this_host()) {
    ShmNames& local = ShmNames::of_this_process();
    const std::lock_guard lock(local.mutex);
    const bool alive = !route.same_process || local.names.contains(route.name);
    if (alive && !std::ranges::any_of(routes_, uses)) (void)fi_av_remove(fabric_->addresses.get(), &at, 1, 0);
    return;
  }
  if (known_order_.size() <= kKept) return;
  const Bytes oldest = std::move(known_order_.front());
  known_order_.pop_front();
  at = known_.at(oldest);
  if (std::ranges::any_of(routes_, uses) || route.fabric_address == at) {
    known_order_.push_back(oldest);
    return;
  }
  known_.erase(oldest);
  worked_.erase(at);
  (void)fi_av_remove(fabric_->addresses.get(), &at, 1, 0);
}

Result<void> Wire::post_receive(PacketBuffer& buffer) {
  const long failed = fi_recv(fabric_->endpoint.get(), buffer.data, options_.packet_bytes, buffer.descriptor,
                              FI_ADDR_UNSPEC, &buffer.fabric);
  if (failed != 0) return fabric_error(failed, "fi_recv");
  return {};
}

long Wire::post_send(Route& route, PacketBuffer& buffer) {
  if (!route.same_process) {
    return fi_send(fabric_->endpoint.get(), buffer.data, buffer.size, buffer.descriptor, route.fabric_address,
                   &buffer.fabric);
  }
  ShmNames& local = ShmNames::of_this_process();
  const std::lock_guard lock(local.mutex);
  if (!local.names.contains(route.name)) return -FI_ECONNRESET;
  return fi_send(fabric_->endpoint.get(), buffer.data, buffer.size, buffer.descriptor, route.fabric_address,
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
    free_buffers_.push_back(&buffer);
    route.failed = true;
    return false;
  }
  ++route.in_flight;
  ++in_flight_;
  return true;
}

Wire::Begun Wire::read(Route& route, std::span<const iovec> pieces, std::span<void* const> descriptors,
                       const Extent& from, void* who) {
  reads_in_flight_.emplace_back();
  ReadSlot& read = reads_in_flight_.back();
  read.kind = Context::Kind::kRead;
  read.who = who;
  read.route = &route;
  read.self = std::prev(reads_in_flight_.end());
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
    failed = fi_readmsg(fabric_->endpoint.get(), &message, FI_COMPLETION);
  } else {
    ShmNames& local = ShmNames::of_this_process();
    const std::lock_guard lock(local.mutex);
    if (local.names.contains(route.name)) failed = fi_readmsg(fabric_->endpoint.get(), &message, FI_COMPLETION);
  }
  if (failed == 0) return Begun::kYes;
  reads_in_flight_.pop_back();
  if (failed == -FI_EAGAIN) return Begun::kNotYet;
  return Begun::kNo;
}

bool Wire::poll(WireClient& client) {
  constexpr int kRounds = 8;
  std::array<fi_cq_msg_entry, 32> entries;  // filled by the provider
  bool did = false;
  if (!parting_.empty()) send_parting();
  for (int round = 0; round < kRounds; ++round) {
    const ssize_t n = fi_cq_read(fabric_->queue.get(), entries.data(), entries.size());
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
  if (fi_cq_readerr(fabric_->queue.get(), &entry, 0) != 1) return;
  void* context = entry.op_context;
  // shm, in 1.17, does not say which read failed; it does them one after the other, so it was the oldest.
  if (context == nullptr && !reads_in_flight_.empty()) context = &reads_in_flight_.front().fabric;
  if (context == nullptr) return;
  // The error of a queue pair in its error state. ofi_rxm 1.17 continues to use it.
  auto* any = reinterpret_cast<Context*>(context);
  const bool flushed = entry.err == FI_EIO || entry.err == FI_ECANCELED;  // nothing of ours cancels a send
  if (flushed && any->kind == Context::Kind::kSend) {
    // A connection that was never up leaves nothing behind. The other sessions of the endpoint can stay.
    Route& route = *static_cast<PacketBuffer*>(any)->route;
    route.broken = worked_.contains(route.fabric_address);
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
  free_buffers_.push_back(&buffer);
  --in_flight_;
  --route.in_flight;
  if (good) worked_.insert(route.fabric_address);
  if (route.owner != nullptr) {
    client.on_sent(route, good);
  } else {
    forget_if_unused(route);
  }
}

void Wire::ended_read(WireClient& client, ReadSlot& read, bool good) {
  void* const who = read.who;
  Route& route = *read.route;
  reads_in_flight_.erase(read.self);
  client.on_read(who, good);
  forget_if_unused(route);
}

}  // namespace spate::bmi::ofi
