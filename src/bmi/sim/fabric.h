// SPDX-License-Identifier: Apache-2.0
// Fabric: the simulated network of one test. It carries packets between endpoints in virtual time, and fails as the
// test plans.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "bmi/module.h"
#include "bmi/sim/events.h"
#include "bmi/sim/hosts.h"
#include "bmi/sim/links.h"
#include "bmi/sim/packet.h"

namespace spate::bmi::sim {

struct FabricOptions {
  LinkOptions link;
  NicOptions nic;
  /// Large messages travel in packets of this size, at most `window` of one message at a time. Both >= 1.
  std::uint64_t chunk_bytes = 128 * 1024;
  std::uint32_t window = 8;
  /// Of 1000 operations that could complete at their post, this many do so. The others complete later.
  std::uint32_t immediate_per_mille = 500;
  /// Of 1000 cancels of a receive that is being filled, this many drop the connection, as a real network may have to.
  std::uint32_t cancel_drops_per_mille = 0;
};

/// How a node dies. kProcess: its kernel closes the connections, and peers learn of it after a latency. kMachine: peers
/// learn of it by their own deadlines, or when they send to the node after its restart.
enum class Death : std::uint8_t { kProcess, kMachine };

struct FabricStatistics {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
  std::uint64_t connections = 0;              // made
  std::uint64_t losses = 0;                   // how often an end of a connection was told that it is lost
  std::uint64_t ready_dropped = 0;            // receiver_ready messages without a receive
  std::uint64_t violations = 0;               // connections ended because the peer broke the protocol
  std::uint64_t unauthenticated_dropped = 0;  // not admitted in time, or too many (NetworkOptions::unauthenticated)
};

/// A process's end of its connections. Life cycle: Fabric::enter() -> calls -> Fabric::leave(), or killed(); the fabric
/// calls nothing afterwards. The fabric calls it from its events only, not from within a call into the fabric (except
/// kill_node and pass_descriptor). Every call but killed() may call the fabric.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  /// Whether connections are accepted. False: attempts to connect to this endpoint are refused.
  virtual bool listening() const = 0;
  /// Its process has died. Every connection is gone, and it must not use the fabric any more.
  virtual void killed() = 0;
  /// The other side makes a connection to this endpoint. Returns the answer.
  virtual Hello accept(ConnectionEnd end, const Hello& from) = 0;
  /// The other side has accepted the connection that this one began. `from`: the answer of its accept().
  virtual void connected(ConnectionEnd end, const Hello& from) = 0;
  /// A connection that this side began was refused, timed out, or was lost before an answer came.
  virtual void connect_failed(ConnectionEnd end) = 0;
  /// The established connection is gone: the other side has closed it or died, or a fault broke it.
  virtual void lost(ConnectionEnd end) = 0;
  /// A packet of the other side. Packets of one stream (stream_of()) come in the order of sending.
  virtual void received(ConnectionEnd end, Packet packet) = 0;
  /// The other side has passed a descriptor.
  virtual void descriptor(ConnectionEnd /*end*/, Tag /*tag*/, int /*fd*/) {}
  /// The last byte of the packet with this token has left the interface.
  virtual void left(ConnectionEnd end, std::uint64_t token) = 0;
  /// A data packet of `transfer` has reached the other side.
  virtual void delivered(ConnectionEnd end, std::uint64_t transfer) = 0;
  /// The call that the endpoint requested by Fabric::poke().
  virtual void poked() = 0;
};

/// One thread. It outlives every module attached to it. `random` decides every choice, and nothing depends on
/// addresses. So the same seed and the same calls give exactly the same run (compare digest()).
///
/// Time passes only in deliver_next() and run_until(). Calls between them happen at one instant.
class Fabric {
 public:
  Fabric(ManualClock& clock, Random& random, FabricOptions options = {});
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  ~Fabric();

  // Time.
  /// The time of the next event; never() if none is scheduled.
  MonoTime next_event_time() const { return events_.next_time(); }
  /// Sets the clock to the next event and runs it. False: there is none.
  bool deliver_next();
  /// Runs all events up to `when` and sets the clock to it.
  void run_until(MonoTime when);
  /// Runs `action`, for example a planned fault, at `when`. The events that it causes are ordinary ones.
  void at(MonoTime when, UniqueFunction<void()> action) { events_.at(when, std::move(action)); }

  // Faults, effective at once.
  /// Ends the processes on `node`, on all its paths. Their operations complete with kConnectionLost, later posts fail
  /// with it, and no packet leaves any more. No effect on a dead node.
  void kill_node(std::uint32_t node, Death death = Death::kProcess);
  /// Breaks every connection between two nodes, on any path. Each side learns of it after a delay of its own.
  void drop_connection(std::uint32_t a, std::uint32_t b);
  Links& links() { return links_; }
  Hosts& hosts() { return hosts_; }

  const FabricStatistics& statistics() const { return statistics_; }
  /// A digest of everything that has happened, with its time.
  std::uint64_t digest() const { return digest_; }

  // For endpoints.
  /// Puts an endpoint on the network. The place must be free. Returns the number of this instance, which is never used
  /// again.
  std::uint64_t enter(NetworkInterface interface, Endpoint& endpoint);
  /// Closes the endpoint's connections and frees its place. No effect if it was killed.
  void leave(NetworkInterface interface, Endpoint& endpoint);
  /// Begins to connect two places. connected() or connect_failed() follows, at the latest after `timeout`.
  ConnectionEnd connect(NetworkInterface from, NetworkInterface to, const Hello& hello, Duration timeout);
  /// Closes the connection. The other side learns of it after a latency; this side is called no more.
  void close(ConnectionEnd end);
  /// Sends a packet behind the earlier ones of this side's interface and class. No effect on a closed connection.
  void send(ConnectionEnd end, Packet packet);
  /// Schedules an event at this instant that calls poked() on the endpoint with this instance number.
  void poke(NetworkInterface interface, std::uint64_t instance) { poke_at(clock_.now(), interface, instance); }
  /// As poke(), at a later time.
  void poke_at(MonoTime when, NetworkInterface interface, std::uint64_t instance);
  MonoTime now() const { return clock_.now(); }
  /// Passes a descriptor of this end's process to the other end's process, which has it at once.
  Result<void> pass_descriptor(ConnectionEnd end, Tag tag, int fd);
  Random& random() { return random_; }
  const FabricOptions& options() const { return options_; }
  FabricStatistics& mutable_statistics() { return statistics_; }

 private:
  struct Entered {
    Endpoint* endpoint;
    std::uint64_t instance;
  };
  struct Stream {
    struct Entry {
      Packet packet;
      bool arrived = false;
    };
    std::deque<Entry> queue;
    std::uint64_t first = 0;  // number of the queue's first packet
  };
  struct End {
    NetworkInterface interface;
    Endpoint* endpoint = nullptr;  // null: gone
    bool open = false;
    bool established = false;
    bool vanished = false;  // the machine crashed, and the other side does not know yet
    Hello hello;
    std::map<StreamKey, Stream> outgoing;
  };
  struct Connection {
    std::array<End, 2> ends;
    std::optional<EventQueue::Key> timeout;
  };
  struct Nic {
    std::array<MonoTime, 2> sending_until;  // by class
    std::array<MonoTime, 2> receiving_until;
  };
  struct PacketName {
    ConnectionEnd sender;
    StreamKey stream;
    std::uint64_t number;
    std::uint64_t size;
    std::size_t nic_class;
  };

  Connection* find(ConnectionEnd end);
  End* open_end(ConnectionEnd end);
  Endpoint* listener_at(NetworkInterface interface) const;
  void connect_arrived(ConnectionEnd connector);
  void connect_answered(ConnectionEnd connector, bool accepted);
  void establish(ConnectionEnd connector);
  void connect_timed_out(ConnectionEnd connector);
  void packet_left(ConnectionEnd sender, std::uint64_t token);
  void packet_arrived(const PacketName& name);
  void packet_ready(const PacketName& name);
  void deliver(ConnectionEnd receiver, Packet packet);
  void tell_lost(ConnectionEnd end);
  void lose(ConnectionEnd end);
  void erase_if_closed(std::uint64_t connection);
  void close_all(Endpoint& endpoint, Death death);
  void note(std::uint64_t what, std::uint64_t a, std::uint64_t b);

  ManualClock& clock_;
  Random& random_;
  FabricOptions options_;
  EventQueue events_;
  std::map<NetworkInterface, Entered> endpoints_;
  std::map<std::uint64_t, Connection> connections_;
  std::map<NetworkInterface, Nic> nics_;
  Links links_;
  Hosts hosts_;
  std::uint64_t next_connection_ = 0;
  std::uint64_t next_instance_ = 0;
  FabricStatistics statistics_;
  std::uint64_t digest_ = 0;
};

/// Makes the module of a process on `node`, with the URL "sim://<node>", or "sim<path + 1>://<node>". The place must be
/// free: it was never used, or its module was killed or destroyed. A destroyed module leaves the network as
/// Death::kProcess does.
std::unique_ptr<Module> attach(Fabric& fabric, std::uint32_t node, std::uint32_t path = 0);

}  // namespace spate::bmi::sim
