// SPDX-License-Identifier: Apache-2.0
// Fabric: how connections are made and end.
#include <utility>

#include "base/check.h"
#include "bmi/sim/fabric.h"

namespace spate::bmi::sim {
namespace {
enum Noted : std::uint64_t { kNotedConnected = 100, kNotedLost, kNotedRefused };
}

std::uint64_t Fabric::enter(NetworkInterface interface, Endpoint& endpoint) {
  const bool free = endpoints_.emplace(interface, Entered{&endpoint, ++next_instance_}).second;
  SPATE_CHECK(free);
  return next_instance_;
}

void Fabric::leave(NetworkInterface interface, Endpoint& endpoint) {
  const auto it = endpoints_.find(interface);
  if (it == endpoints_.end() || it->second.endpoint != &endpoint) return;  // the process was killed before
  close_all(endpoint, Death::kProcess);
  endpoints_.erase(it);
}

void Fabric::poke_at(MonoTime when, NetworkInterface interface, std::uint64_t instance) {
  events_.at(when, [this, interface, instance] {
    const auto it = endpoints_.find(interface);
    if (it != endpoints_.end() && it->second.instance == instance) it->second.endpoint->poked();
  });
}

Fabric::Connection* Fabric::find(ConnectionEnd end) {
  const auto it = connections_.find(end.connection);
  return it == connections_.end() ? nullptr : &it->second;
}

Fabric::End* Fabric::open_end(ConnectionEnd end) {
  Connection* connection = find(end);
  return connection != nullptr && connection->ends[end.side].open ? &connection->ends[end.side] : nullptr;
}

Endpoint* Fabric::listener_at(NetworkInterface interface) const {
  const auto it = endpoints_.find(interface);
  return it != endpoints_.end() && it->second.endpoint->listening() ? it->second.endpoint : nullptr;
}

ConnectionEnd Fabric::connect(NetworkInterface from, NetworkInterface to, const Hello& hello, Duration timeout) {
  const auto it = endpoints_.find(from);
  SPATE_CHECK(it != endpoints_.end());
  const ConnectionEnd connector{++next_connection_, 0};
  Connection& connection = connections_[connector.connection];
  connection.ends[0].interface = from;
  connection.ends[0].endpoint = it->second.endpoint;
  connection.ends[0].open = true;
  connection.ends[0].hello = hello;
  connection.ends[1].interface = to;
  connection.timeout = events_.at(clock_.now() + timeout, [this, connector] { connect_timed_out(connector); });
  links_.travel(from, to, clock_.now(), [this, connector] { connect_arrived(connector); });
  return connector;
}

void Fabric::connect_arrived(ConnectionEnd connector) {
  Connection* connection = find(connector);
  if (connection == nullptr || !connection->ends[0].open) return;
  End& listener = connection->ends[1];
  const NetworkInterface from = connection->ends[0].interface;
  const NetworkInterface to = listener.interface;
  Endpoint* endpoint = listener_at(to);
  if (endpoint == nullptr) {
    links_.travel(to, from, clock_.now(), [this, connector] { connect_answered(connector, false); });
    return;
  }
  listener.endpoint = endpoint;
  listener.open = true;
  listener.established = true;
  links_.travel(to, from, clock_.now(), [this, connector] { connect_answered(connector, true); });
  const Hello answer = endpoint->accept(connector.other(), connection->ends[0].hello);
  if (Connection* still = find(connector)) still->ends[1].hello = answer;
}

void Fabric::connect_answered(ConnectionEnd connector, bool accepted) {
  End* end = open_end(connector);
  if (end == nullptr || end->established) return;
  if (accepted) {
    establish(connector);
    return;
  }
  note(kNotedRefused, connector.connection, 0);
  if (find(connector)->timeout) events_.cancel(*find(connector)->timeout);
  Endpoint* endpoint = end->endpoint;
  connections_.erase(connector.connection);
  endpoint->connect_failed(connector);
}

void Fabric::establish(ConnectionEnd connector) {
  Connection& connection = *find(connector);
  if (connection.timeout) events_.cancel(*connection.timeout);
  connection.timeout.reset();
  connection.ends[0].established = true;
  statistics_.connections += 1;
  note(kNotedConnected, connector.connection, 0);
  const Hello hello = connection.ends[1].hello;
  connection.ends[0].endpoint->connected(connector, hello);
}

void Fabric::connect_timed_out(ConnectionEnd connector) {
  const End* end = open_end(connector);
  if (end == nullptr || end->established) return;
  Endpoint* endpoint = end->endpoint;
  close(connector);
  endpoint->connect_failed(connector);
}

void Fabric::close(ConnectionEnd end) {
  Connection* connection = find(end);
  if (connection == nullptr || !connection->ends[end.side].open) return;
  connection->ends[end.side].open = false;
  if (connection->timeout) events_.cancel(*connection->timeout);
  connection->timeout.reset();
  tell_lost(end.other());
  erase_if_closed(end.connection);
}

// The event travels like a packet from the other side, and is held back with its packets.
void Fabric::tell_lost(ConnectionEnd end) {
  const End* open = open_end(end);
  if (open == nullptr) return;
  const NetworkInterface from = find(end)->ends[1 - end.side].interface;
  links_.travel(from, open->interface, clock_.now(), [this, end] { lose(end); });
}

void Fabric::lose(ConnectionEnd end) {
  End* open = open_end(end);
  if (open == nullptr) return;
  open->open = false;
  Endpoint* endpoint = open->endpoint;
  statistics_.losses += 1;
  note(kNotedLost, end.connection, end.side);
  Connection* connection = find(end);
  if (connection->timeout) events_.cancel(*connection->timeout);
  connection->timeout.reset();
  const bool was_established = connection->ends[end.side].established;
  erase_if_closed(end.connection);
  if (was_established) {
    endpoint->lost(end);
  } else {
    endpoint->connect_failed(end);
  }
}

// Packets in flight are lost with the connection.
void Fabric::erase_if_closed(std::uint64_t connection) {
  const auto it = connections_.find(connection);
  if (it == connections_.end() || it->second.ends[0].open || it->second.ends[1].open) return;
  connections_.erase(it);
}

void Fabric::close_all(Endpoint& endpoint, Death death) {
  std::vector<ConnectionEnd> ends;
  for (const auto& [id, connection] : connections_) {
    for (std::uint32_t side = 0; side < 2; ++side) {
      if (connection.ends[side].open && connection.ends[side].endpoint == &endpoint) ends.push_back({id, side});
    }
  }
  for (const ConnectionEnd end : ends) {
    Connection* connection = find(end);
    if (connection == nullptr) continue;
    if (death == Death::kProcess) {
      close(end);
      continue;
    }
    connection->ends[end.side].open = false;
    connection->ends[end.side].vanished = true;
    if (connection->timeout) events_.cancel(*connection->timeout);
    connection->timeout.reset();
    erase_if_closed(end.connection);
  }
}

}  // namespace spate::bmi::sim
