// SPDX-License-Identifier: Apache-2.0
// ServerLink: the way from a channel to its server: the addresses, the connection in use, and one request with its
// reply.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/random.h"
#include "job/network.h"
#include "rpc/channel_options.h"
#include "rpc/identity.h"
#include "rpc/patience.h"
#include "rpc/seals.h"

namespace spate::rpc {

/// One connection after its handshake. Calls under way keep it after another one has replaced it.
struct Connection {
  bmi::Address address;  // bound to the connection
  std::uint16_t version = wire::kProtocolVersion;
  std::uint64_t features = 0;
  std::optional<Seals> seals;
  std::shared_ptr<wire::BulkSeals> bulk_seals;
  ClientId client;          // the session and its epoch in which the handshake was made;
  std::uint32_t epoch = 0;  // another channel's handshake may have begun a new epoch since
};
using ConnectionPtr = std::shared_ptr<Connection>;

/// One attempt to send a request. Everything that it points to stays until exchange() has ended.
struct Sending {
  wire::Op op = wire::Op::kPing;
  TraceId trace;
  bmi::Address address;
  ByteView head;
  ByteView body;
  std::uint32_t reply_room = 16 * 1024;
  Bulk* bulk = nullptr;
  std::shared_ptr<wire::BulkSeals> bulk_seals = nullptr;
  Seals* seals = nullptr;    // of the reply; kept by the caller
  bool seal_request = true;  // with `seals`
  bool proven = true;        // false: whoever answers has not proved to be the server
  Duration timeout{0};       // replaces attempt_timeout; 0: it does not. ServerLink's patience multiplies it
};

/// Belongs to a Channel, which makes handshakes and sends requests again. One executor; pinned; any number of exchanges
/// at once. Life cycle: resolve() -> use() after each handshake -> forgotten when the connection is lost -> destroyed,
/// when no exchange is under way. No other link uses its connection, which ends with the link. `network`, `identity`
/// and `random` outlive it.
class ServerLink {
 public:
  ServerLink(ChannelOptions options, job::NetworkContext& network, const Identity& identity, Random& random);
  ServerLink(const ServerLink&) = delete;
  ServerLink& operator=(const ServerLink&) = delete;
  ~ServerLink();

  const ChannelOptions& options() const { return options_; }
  /// Whether the addresses are those of several servers, of which one at a time answers requests.
  bool is_group() const { return options_.group_silence != Duration(0); }
  // See Channel.
  std::string name() const;
  bmi::PeerInfo peer_info() const;
  std::string unreached() const;
  Incarnation incarnation() const { return incarnation_; }
  bool has_restarted() const { return restarted_.load(std::memory_order_relaxed); }
  void on_restart(UniqueFunction<void()> action) { on_restart_ = std::move(action); }
  std::uint64_t map_version() const { return map_version_; }
  /// Whether the error means that the connection is lost, or must not be used any more.
  static bool is_lost(Errc code) {
    return code == Errc::kConnectionLost || code == Errc::kUnreachable || code == Errc::kProtocol;
  }

  /// Looks the addresses up. Call it before the functions below.
  Result<void> resolve();
  /// The server's address, which is not bound to a connection.
  bmi::Address address() const { return *peer_; }
  /// The server's address, bound to its present connection. None: it has no connection.
  bmi::Address bound() const { return network_.network().bound(*peer_); }

  /// The connection in use. Null: no handshake yet, or its connection is lost.
  const ConnectionPtr& connection() const { return connection_; }
  /// Whether there is a connection in use, made in this session, over which requests can be sent.
  bool holds() const;
  /// A handshake was made over `connection`.
  void use(const ConnectionPtr& connection);
  /// Requests do not use the connection any more. It stays open.
  void leave() { connection_.reset(); }
  /// Closes the connection; the next one is made to the next address.
  void close_and_turn_to_next();
  /// As above, for a member of a group that does not lead or does not answer. All requests under way with it end.
  void try_next_server();
  /// If the server was found at a later address than its first, and it is time, the next connection is made to the
  /// first one. Call it only while no request is under way: the server takes a new connection of this client for a new
  /// start, and ends what is left of the old one.
  void return_to_first_url();

  /// Makes sure that there is a connection, before anything is proved. Yields the address bound to it.
  job::Task<Result<bmi::Address>> connect(TraceId trace, job::StopToken stop);

  wire::RequestHeader header_of(wire::Op op, const CallOptions& options) const;
  /// Sends a request and receives the reply. An error that the server reports becomes the result; then `answered`,
  /// unless null, is set. Own errors begin with name(): kTimeout after `timeout`, kConnectionLost (also for a broken
  /// seal, which closes the connection), kUnreachable, kProtocol for a reply that cannot be read. An attempt without an
  /// answer ends its connection. `stop` ends the exchange. When it ends, nothing of `sending` is in use any more.
  job::Task<Result<RawReply>> exchange(const Sending& sending, job::StopToken stop, bool* answered = nullptr);
  /// While true, no ping is sent: between an authenticate and its reply the server takes no other request.
  void keep_quiet(bool quiet) { quiet_ = quiet; }

 private:
  void note_url();
  void forget(bmi::Address address);
  bmi::Tag next_tag();
  Error broken_seal(const Sending& sending);
  bool is_watched(const Sending& sending) const { return is_group() && sending.timeout == Duration(0); }
  Duration time_for(const Sending& sending) const;
  void note_silence(const Sending& sending, std::uint32_t patience);
  void note_answer(const Sending& sending, Errc status, Duration took);
  Result<RawReply> read_reply(const Sending& sending, bmi::Tag tag, Buffer message);
  job::Task<Result<std::uint64_t>> receive_watched(job::NetworkOp& receive, bmi::Address from, job::StopToken stop);
  job::Task<Result<void>> receive_into(job::NetworkOp& receive, Result<std::uint64_t>& received, job::StopSource& ended,
                                       job::StopToken stop);
  job::Task<Result<void>> watch_server(bmi::Address address, job::StopToken ended);

  const ChannelOptions options_;
  job::NetworkContext& network_;
  const Identity& identity_;
  Random& random_;
  std::optional<bmi::Address> peer_;
  ConnectionPtr connection_;
  Patience patience_;
  bool quiet_ = false;
  bool watching_ = false;  // a ping is under way
  std::uint64_t next_tag_;
  Incarnation incarnation_;
  UniqueFunction<void()> on_restart_;
  std::atomic<bool> restarted_{false};
  std::uint64_t map_version_ = 0;
  MonoTime return_at_ = MonoTime::never();  // when to try the first URL again, if the server was found at another one
  Duration return_wait_{0};                 // the pause before return_at_
};

}  // namespace spate::rpc
