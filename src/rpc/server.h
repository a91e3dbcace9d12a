// SPDX-License-Identifier: Apache-2.0
// Server: takes unexpected messages, checks header and peer, runs the operation's handler, sends the reply.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "job/gate.h"
#include "job/network.h"
#include "metrics/metrics.h"
#include "rpc/admission_queue.h"
#include "rpc/audit.h"
#include "rpc/authenticator.h"
#include "rpc/calls.h"
#include "rpc/loads.h"
#include "rpc/operations.h"
#include "rpc/peers.h"
#include "rpc/permits.h"
#include "rpc/refusals.h"
#include "rpc/reply_gate.h"
#include "rpc/reply_writer.h"
#include "rpc/slow_requests.h"
#include "rpc/user_keys.h"

namespace spate::rpc {

struct ServerOptions {
  FsId fs;
  ServerId server;
  Incarnation incarnation;
  std::uint64_t map_version = 1;
  Entrances entrances;            // what its addresses ask of clients
  bool munge_beside_keys = true;  // with `munge`: users by munge are admitted where an address asks for a key
  KeyRing client_key;
  KeyRing server_key;
  /// Admits peers that speak protocol version 1, whose handshake is not bound to this server.
  bool allow_version_1 = false;
  wire::Protect protect = wire::Protect::kControl;  // the least protection that this server accepts on a network
  std::vector<std::string> roles;
  std::string software;                         // "spate 0.1.0"
  std::uint64_t features = wire::kOurFeatures;  // features that this server agrees to when a client asks for them;
                                                // tests of clients set fewer
  std::size_t max_requests = 1024;              // calls under way at once; more wait for a permit
  std::size_t max_aside = 16384;  // calls that wait for other servers or clients and take no permit (ReleasedPermit)
  /// Bytes of requests that wait for a permit; beyond it requests are refused with kBusy.
  std::uint64_t max_waiting_bytes = 64ULL << 20U;
  /// The part of max_requests for peers that have not proved a key, in all and for each. A peer that exceeds its part
  /// is dropped. When all together exceed theirs, the one with the most requests is dropped, so that a peer that never
  /// takes its answers cannot keep the others out.
  std::size_t max_unauthenticated_requests = 256;
  std::uint32_t max_requests_of_an_unauthenticated_peer = 64;
  Duration slow_request{};             // requests that take at least this long are logged as slow; 0: none
  std::shared_ptr<const Munge> munge;  // null: nobody is admitted by munge
  log::LineFile* audit = nullptr;      // outlives the server; null: no audit log
};

/// One per process (a process with several roles adds several services; one may come later). One executor. `network`,
/// `random`, `metrics` and the services outlive it. Life cycle: construct -> add services -> start() -> stop() awaited
/// -> destroyed. Handshakes, keep-alives, requests for events and requests of other servers never wait for a permit, so
/// a full server still hears that its clients live.
class Server {
 public:
  Server(ServerOptions options, job::NetworkContext& network, Random& random, metrics::Registry& metrics);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void add(Service& service);
  /// Replies wait for the gate from now on. Call it before start().
  void set_gate(ReplyGate& gate) { gate_to_pass_ = &gate; }
  void start();
  /// Takes no more requests, drops those that wait for a permit without an answer, stops those under way, and waits
  /// until they have ended. Clients send dropped requests again when their connection is lost or their timeout ends.
  job::Task<void> stop();

  /// Sets the version of the cluster map that every reply reports from now on. Clients with an older map ask a meta
  /// server for the new one.
  void set_map_version(std::uint64_t version) { replies_.set_map_version(version); }
  void set_incarnation(Incarnation incarnation) { replies_.set_incarnation(incarnation); }
  /// See UserKeys::set_revoked(). The server refuses requests of these keys' holders from now on.
  void set_revoked_keys(std::set<KeyId> revoked) { user_keys_.set_revoked(std::move(revoked)); }
  const ServerOptions& options() const { return options_; }
  job::NetworkContext& network() { return network_; }

  /// The authenticated peers (for `status`, and for an io server's search for older incarnations).
  std::vector<std::shared_ptr<Peer>> peers() const { return peers_.authenticated(); }

 private:
  void on_request(bmi::UnexpectedMessage message);
  bool goes_first(const Arrived& request) const;
  void begin(Arrived request);
  void begin_waiting();
  job::Task<void> refuse_busy(Arrived request);
  job::Task<void> answer(Arrived request);
  job::Task<void> answer_known(Call& call, ByteView body);
  job::Task<Result<Bytes>> execute(Call& call, ByteView body, Calls::Entry& entry);
  job::Task<Result<Bytes>> run_row(Call& call, ByteView body, const OperationRow& row, Calls::Entry& entry);
  job::Task<Result<Bytes>> let_pass(const Call& call, Result<Bytes> result);
  job::Task<void> take(Call& call, ByteView message);
  Result<Bytes> ping(ByteView body);
  /// The answer to a request for metrics or loads.
  Bytes watch(wire::Op op) const;
  void note_load(const Call& call, bool failed);
  Result<void> check_header(const Call& call) const;
  Result<void> check_access(const Call& call, Access access);

  ServerOptions options_;
  job::NetworkContext& network_;
  metrics::Registry& metrics_;
  job::Gate gate_;
  job::StopSource stopping_;
  MonoTime started_at_;
  Audit audit_;
  Refusals refusals_;
  SlowRequests slow_requests_;
  Loads loads_;
  Peers peers_;
  UserKeys user_keys_;
  std::unique_ptr<MungeDecoder> munge_;
  ReplyWriter replies_;
  Authenticator authenticator_;
  Operations operations_;
  Calls calls_;
  Permits permits_;
  AdmissionQueue waiting_;
  bool beginning_ = false;
  std::size_t refusing_ = 0;
  ReplyGate* gate_to_pass_ = nullptr;
};

}  // namespace spate::rpc
