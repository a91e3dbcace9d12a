// SPDX-License-Identifier: Apache-2.0
// Channel: sends requests from one client (or server) to one server: handshake, deadline, resend (docs/consistency.md,
// "Resends").
#pragma once

#include <optional>
#include <string>

#include "base/random.h"
#include "job/event.h"
#include "job/network.h"
#include "rpc/channel_options.h"
#include "rpc/identity.h"
#include "rpc/initiator.h"
#include "rpc/server_link.h"

namespace spate::rpc {

/// One executor; pinned; any number of calls at once. The channel makes a handshake (hello, authenticate) before the
/// first request and after each loss of the connection. It then sends requests again whose connection was lost, until
/// their deadlines: the handshake's incarnation makes that safe at an io server, the request id at a meta server.
/// Requests and bulk data leave only by the connection of the handshake, since anybody may answer on a new one. If
/// there are several URLs, the channel skips one where another server answers. A connection carries one handshake, so
/// each channel has its own, also where several channels of a process go to one server.
///
/// Life cycle: construct, which causes no traffic -> calls -> destroyed, when no call is under way. `network`,
/// `identity` and `random` outlive it. One handshake runs at a time; calls that need it wait for it. The destructor
/// closes the connection and waits for nothing.
class Channel {
 public:
  Channel(ChannelOptions options, job::NetworkContext& network, Identity& identity, Random& random);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Yields the reply to `body` (an encoded message), or an error: the server's own, with its context. If the deadline
  /// passes first, the error names the server; its code is kUnreachable if no connection could be made in the end, else
  /// kTimeout. The server learns a slightly earlier deadline (a tenth, at most 1 s), so that it can report what it
  /// waits for before the caller's deadline passes. After kTimeout the request may or may not have had an effect.
  /// kUnauthenticated, kSessionUnknown and kSessionFenced are returned when a new handshake does not help. A request
  /// that the server ended because of a newer handshake of this client (kCancelled) is sent again. kForgottenRequest: a
  /// change was sent and its answer was lost; the session that would know the answer is gone.
  job::Task<Result<RawReply>> call(wire::Op op, ByteView body, CallOptions options);

  /// The same with typed messages.
  template <typename Reply, typename Request>
  job::Task<Result<Reply>> call(const Request& request, CallOptions options) {
    Bytes body;
    wire::encode_body(request, body);
    SPATE_CO_TRY(auto raw, co_await call(Request::kOp, body, options));
    auto reply = wire::decode_body<Reply>(raw.body);
    if (!reply) co_return std::move(reply).error().within(name());
    co_return *std::move(reply);
  }

  /// Asks once whether the server is there and has the keys of this file system, at any of its URLs. It needs no
  /// session and opens none. The error says which step failed. After kTimeout or a lost connection: see unreached().
  job::Task<Result<void>> meet(MonoTime deadline);

  /// "server 3 (tcp://127.0.0.1:7403)": for messages.
  std::string name() const { return link_.name(); }
  ServerId server() const { return link_.options().server; }
  /// The server's incarnation in the last reply; 0 before the first. A change means that unsynced writes may be lost.
  Incarnation incarnation() const { return link_.incarnation(); }
  /// Whether the incarnation has changed between two replies. Thread-safe.
  bool has_restarted() const { return link_.has_restarted(); }
  /// Sets the function to call when a reply shows another incarnation than the one before, and before any caller gets
  /// that reply. It may not use the channel.
  void on_restart(UniqueFunction<void()> action) { link_.on_restart(std::move(action)); }
  std::uint64_t map_version() const { return link_.map_version(); }
  bmi::PeerInfo peer_info() const { return link_.peer_info(); }
  /// The network's reason why there is no connection, for people; one for each URL if there are several. Empty: there
  /// is a connection, or none was tried.
  std::string unreached() const { return link_.unreached(); }
  /// wire::Feature: the features that the server agreed to in the last handshake; 0 before the first one. They outlive
  /// the connection: the server is expected to agree to the same ones in the next handshake.
  std::uint64_t features() const { return features_; }
  /// Makes the next request repeat the handshake (a new session was opened).
  void repeat_handshake() { link_.leave(); }
  /// The oldest call under way: since when it has waited for this server, and why its last attempt failed. Calls that
  /// the server answers only when there is an event (session_events) do not count.
  struct Waiting {
    MonoTime since;
    Errc why = Errc::kTimeout;
  };
  std::optional<Waiting> waiting() const;

 private:
  /// A call under way.
  class Under;

  /// The end of a handshake: kHello: the server has answered hello; kSession: the session is established, too.
  enum class HandshakeGoal : std::uint8_t { kHello, kSession };
  job::Task<Result<void>> ensure_handshake(HandshakeGoal goal, job::StopToken stop);
  job::Task<Result<void>> handshake(HandshakeGoal goal, job::StopToken stop);
  job::Task<Result<void>> handshake_at_any_url(HandshakeGoal goal, job::StopToken stop);
  void note_refusal(const Error& error);
  void take_newer_key();
  job::Task<Result<void>> handshake_once(HandshakeGoal goal, std::uint16_t version, bool& wrong_server,
                                         job::StopToken stop);
  /// The connection for a handshake, and what its address asks for.
  struct Dialled {
    bmi::Address address;
    Proof asked = Proof::kKey;
  };
  job::Task<Result<Dialled>> dial(TraceId trace, job::StopToken stop);
  Result<void> check_strength(Proof asked) const;
  Error no_hello(Error error, bool& wrong_server) const;
  job::Task<Result<void>> authenticate(Initiator& initiator, bmi::Address address, job::StopToken stop);
  void join(const wire::AuthenticateReply& accepted, const ConnectionPtr& connection);
  void leave_old_connection();
  Error refusal(Error error) const;
  Error no_answer(Errc last) const;
  Result<void> check_session(const CallOptions& options) const;
  /// `answered` (may be null): set if the error is the server's own.
  job::Task<Result<RawReply>> attempt(wire::Op op, ByteView body, const CallOptions& options, job::StopToken stop,
                                      bool* answered = nullptr);

  job::NetworkContext& network_;
  Identity& identity_;
  Random& random_;
  ServerLink link_;
  std::uint64_t features_ = 0;
  bmi::Address spent_;  // the connection on which an authenticate was sent: it must not carry a second handshake
  /// The strongest proof that failed, and why, until one as strong succeeds.
  struct FailedProof {
    Proof asked;
    Error error;
  };
  std::optional<FailedProof> failed_proof_;
  Proof asked_ = Proof::kKey;  // by the address of the last handshake
  /// A refusal by one of several servers, and when it arrived for the first and the last time.
  struct Refused {
    MonoTime first;
    MonoTime last;
    Error error;
  };
  std::optional<Refused> refused_;
  bool handshake_runs_ = false;
  job::Event handshake_ended_;
  std::uint64_t incarnation_sent_ = 0;
  std::size_t calls_ = 0;    // under way
  Under* oldest_ = nullptr;  // the oldest call that waiting() counts; they form a list in the order in which they began
  Under* newest_ = nullptr;
};

}  // namespace spate::rpc
