// SPDX-License-Identifier: Apache-2.0
// Channel: sends requests from one client (or server) to one server: handshake, deadline, resend (docs/consistency.md,
// "Resends").
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "job/deadline.h"
#include "job/event.h"
#include "job/network.h"
#include "model/cluster_map.h"
#include "rpc/identity.h"
#include "rpc/initiator.h"
#include "rpc/seals.h"
#include "wire/header.h"

namespace spate::rpc {

/// The parameters of one call.
struct CallOptions {
  MonoTime deadline = MonoTime::never();
  wire::RequestId id;                      // for a change at a meta server; kNoSlot for a request that may run twice
  const Capability* capability = nullptr;  // io requests
  wire::Priority priority = wire::Priority::kNormal;
  std::uint32_t reply_room = 16 * 1024;  // bytes, header included
  job::StopToken stop;
  /// If set, the request is sent only in this epoch of this session: kSessionFenced once another epoch has begun,
  /// kSessionUnknown once there is another session. Unset: it is sent in the current one.
  std::optional<SessionEpoch> only_in;
  bool handshake = true;  // false: no handshake first, for requests that a server answers to anybody (ping)
  /// Trace id of the operation that this request is part of. The logs of all servers show the same id. 0: a new one.
  TraceId trace;
  /// Called before each attempt: posts the bulk operations of the request. Null: none. Not owned.
  class Bulk* bulk = nullptr;
};

/// The bulk operations of one request. Each attempt posts them anew, with a new tag.
class Bulk {
 public:
  virtual ~Bulk() = default;
  /// Posts them to `peer`. `seals`: codes of the messages (each begins with one); null: the messages have none.
  virtual void post(bmi::Address peer, bmi::Tag reply_tag, const std::shared_ptr<wire::BulkSeals>& seals) = 0;
  /// The attempt has failed: cancels the posted operations and waits until the network no longer uses their memory.
  virtual job::Task<void> abandon() = 0;
};

struct RawReply {
  wire::ReplyHeader header;
  Buffer message;              // owns the bytes
  ByteView body;               // a part of message
  std::uint64_t features = 0;  // the features agreed on when the request was sent
};

class Channel;

/// Observes when channels begin and end, and their calls. Called on the executor's thread.
class ChannelObserver {
 public:
  virtual ~ChannelObserver() = default;
  virtual void begins(const Channel& channel) = 0;
  virtual void ends(const Channel& channel) = 0;
  virtual void call_begins() = 0;
};

struct ChannelOptions {
  std::vector<std::string> urls;
  ServerId server;  // expected server; 0: any (first contact)
  /// An attempt without an answer ends after this time. The next one uses a new connection (to the next URL).
  Duration attempt_timeout = std::chrono::seconds(10);
  Duration first_backoff = std::chrono::milliseconds(20);
  Duration longest_backoff = std::chrono::seconds(1);
  /// If the server was found at a later URL than its first, the channel tries the first URL again after this time. Each
  /// time that this fails it waits twice as long, up to `longest_return`.
  Duration first_return = std::chrono::seconds(30);
  Duration longest_return = std::chrono::minutes(10);
  /// The URLs are those of several servers, of which one at a time answers requests; the others refuse them with
  /// kNotPrimary, and the next URL is tried. A server that has said nothing for so long is asked whether it lives
  /// (ping), and given up when it does not answer in half that time. 0: the URLs are those of one server, which may be
  /// silent for `attempt_timeout`.
  Duration group_silence{0};
  /// Incarnations told to the server are above it: those of an earlier process of this client are below.
  std::uint64_t incarnations_above = 0;
  /// Observes the calls; null: nobody does. Not owned, outlives the channel.
  ChannelObserver* watch = nullptr;
};

/// How long a server of a group may be silent, see above.
inline constexpr Duration kGroupSilence = std::chrono::seconds(1);
/// To one server, or to the meta servers of a group (ClusterMap::meta_server()).
ChannelOptions channel_to(const ServerEntry& server);

/// One executor; pinned; any number of calls at once. A handshake (hello, authenticate) precedes the first
/// request and after each loss of the connection; a request whose connection was lost is sent again after a new
/// handshake, until its deadline: the handshake's incarnation makes that safe at an io server, the request id at a meta
/// server. Requests and bulk data leave by the connection of the handshake, and no other: who answers on a new one may
/// be anybody. Of several URLs, one where somebody else answers is passed by.
class Channel {
 public:
  Channel(ChannelOptions options, job::NetworkContext& network, Identity& identity, Random& random);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Yields the reply to `body` (an encoded message), or an error: the server's own, with its context. If the deadline
  /// passes first, the error names the server; its code is kUnreachable if no connection could be made in the end, else
  /// kTimeout. The server learns a slightly earlier deadline (a tenth, at most 1 s), so that it can report what it
  /// waits for in vain before ours passes. After kTimeout the request may or may not have had an effect.
  /// kUnauthenticated, kSessionUnknown and kSessionFenced are returned when a new handshake does not help. A request
  /// that the server ended because of a newer handshake of this client (kCancelled) is sent again. kForgottenRequest: a
  /// change was sent and its answer was lost; the session that would know the answer is gone.
  job::Task<Result<RawReply>> call(wire::Op op, ByteView body, CallOptions options);

  /// The same with typed messages.
  template <typename Reply, typename Request>
  job::Task<Result<Reply>> call(const Request& request, CallOptions options) {
    Bytes body;
    wire::encode_body(request, body);
    auto raw = co_await call(Request::kOp, body, options);
    if (!raw) co_return std::move(raw).error();
    auto reply = wire::decode_body<Reply>(raw->body);
    if (!reply) co_return std::move(reply).error().within(name());
    co_return *std::move(reply);
  }

  /// Asks once whether the server is there and has the keys of this file system, at any of its URLs. It needs no
  /// session and opens none. The error says which step failed. After kTimeout or a lost connection: see unreached().
  job::Task<Result<void>> meet(MonoTime deadline);

  /// "server 3 (tcp://127.0.0.1:7403)": for messages.
  std::string name() const;
  ServerId server() const { return options_.server; }
  /// The server's incarnation in the last reply; 0 before the first. A change means that unsynced writes may be lost.
  Incarnation incarnation() const { return incarnation_; }
  /// Whether the incarnation has changed between two replies. Thread-safe.
  bool has_restarted() const { return restarted_.load(std::memory_order_relaxed); }
  std::uint64_t map_version() const { return map_version_; }
  bmi::PeerInfo peer_info() const;
  /// The network's reason why there is no connection, for people; one for each URL if there are several. Empty: there
  /// is a connection, or none was tried.
  std::string unreached() const;
  /// wire::Feature: the features that the server agreed to in the last handshake; 0 before the first one. They outlive
  /// the connection: the next one is expected to agree to the same.
  std::uint64_t features() const { return features_; }
  /// Whether the error means that the connection is lost, or must not be used any more.
  static bool is_lost(Errc code) {
    return code == Errc::kConnectionLost || code == Errc::kUnreachable || code == Errc::kProtocol;
  }
  /// Makes the next request repeat the handshake (a new session was opened).
  void repeat_handshake() { connection_.reset(); }
  /// Since when the oldest call under way has waited for this server, and why its last attempt failed. Calls that the
  /// server answers only when there is an event (lock_events) do not count.
  struct Waiting {
    MonoTime since;
    Errc why = Errc::kTimeout;
  };
  std::optional<Waiting> waiting() const;

 private:
  /// A call under way.
  class Under;
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
  /// One attempt to send a request.
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
    bool seal_request = true;  // by them
    Duration patience{0};      // instead of attempt_timeout
  };

  void return_to_first_url();
  void note_url();
  /// The end of a handshake: kHello: the server has answered hello; kSession: the session is established, too.
  enum class HandshakeGoal : std::uint8_t { kHello, kSession };
  job::Task<Result<void>> ensure_handshake(HandshakeGoal goal, job::StopToken stop);
  job::Task<Result<void>> handshake(HandshakeGoal goal, job::StopToken stop);
  job::Task<Result<void>> handshake_at_any_url(HandshakeGoal goal, job::StopToken stop);
  void take_newer_key();
  job::Task<Result<void>> handshake_once(HandshakeGoal goal, std::uint16_t version, bool& stranger,
                                         job::StopToken stop);
  job::Task<Result<void>> authenticate(Initiator& initiator, bmi::Address address, job::StopToken stop);
  void join(const wire::AuthenticateReply& accepted, const ConnectionPtr& connection);
  void leave_old_connection();
  void forget(bmi::Address address);
  Error refusal(Error error) const;
  Error no_answer(Errc last) const;
  Result<void> check_session(const CallOptions& options) const;
  Error broken_seal(const Sending& sending);
  wire::RequestHeader header_of(wire::Op op, const CallOptions& options) const;
  /// `answered` (may be null): set if the error is the server's own.
  job::Task<Result<RawReply>> attempt(wire::Op op, ByteView body, const CallOptions& options, job::StopToken stop,
                                      bool* answered = nullptr);
  job::Task<Result<RawReply>> exchange(const Sending& sending, job::StopToken stop, bool* answered = nullptr);
  Result<RawReply> read_reply(const Sending& sending, bmi::Tag tag, Buffer message);
  bool is_group() const { return options_.group_silence != Duration(0); }
  void try_next_server();
  job::Task<Result<std::uint64_t>> receive_watched(job::NetworkOp& receive, bmi::Address from, job::StopToken stop);
  job::Task<Result<void>> receive_into(job::NetworkOp& receive, Result<std::uint64_t>& received, job::StopSource& ended,
                                       job::StopToken stop);
  job::Task<Result<void>> watch_server(bmi::Address address, job::StopToken ended);
  bool handshake_holds() const;
  Result<void> resolve();
  bmi::Tag next_tag();

  ChannelOptions options_;
  job::NetworkContext& network_;
  Identity& identity_;
  Random& random_;
  std::optional<bmi::Address> peer_;
  ConnectionPtr connection_;  // null: no handshake yet, or its connection is lost
  std::uint64_t features_ = 0;
  bmi::Address spent_;  // the connection on which an authenticate was sent: it must not carry a second handshake
  bool handshake_runs_ = false;
  bool watching_ = false;  // whether the server of a group lives
  job::Event handshake_ended_;
  std::uint64_t incarnation_sent_ = 0;
  std::uint64_t next_tag_;
  Incarnation incarnation_;
  std::atomic<bool> restarted_{false};
  std::uint64_t map_version_ = 0;
  std::size_t calls_ = 0;    // under way
  Under* oldest_ = nullptr;  // the oldest call that waiting() counts; they form a list in the order in which they began
  Under* newest_ = nullptr;
  MonoTime return_at_ = MonoTime::never();  // when to try the first URL again, if the server was found at another one
  Duration return_wait_{0};                 // the pause before return_at_
};

}  // namespace spate::rpc
