// SPDX-License-Identifier: Apache-2.0
// Requests that every server answers: hello, authenticate, ping, metrics and the session's life (docs/wire.md,
// "Sessions").
#pragma once

#include "model/user_key.h"
#include "wire/header.h"

namespace spate::wire {

using Nonce = std::array<std::byte, 16>;
using spate::KeyId;
using Proof = std::array<std::byte, 32>;

struct Empty {
  static constexpr std::string_view kName = "empty reply";
  template <typename A>
  void fields(A&) {}
};

/// The first request on every connection; needs no authentication.
struct HelloRequest {
  static constexpr Op kOp = Op::kHello;
  static constexpr std::string_view kName = "hello request";
  std::uint16_t oldest_version = kOldestProtocolVersion;
  std::uint16_t newest_version = kProtocolVersion;
  std::uint64_t features = kFeatureNone;  // the features that the client wants
  FsId fs;                                // 0: any file system
  Nonce client_nonce{};
  template <typename A>
  void fields(A& a) {
    a(oldest_version, newest_version, features, fs, client_nonce);
  }
};
struct HelloReply {
  static constexpr std::string_view kName = "hello reply";
  std::uint16_t version = kProtocolVersion;  // the newest version that both sides have
  std::uint64_t features = 0;
  FsId fs;
  ServerId server;
  bool key_required = true;
  Nonce server_nonce{};
  template <typename A>
  void fields(A& a) {
    a(version, features, fs, server, key_required, server_nonce);
  }
};

/// The algorithm of seals. An offer has a set of them, an answer one.
enum class Suite : std::uint16_t { kNone = 0, kUmac64 = 1 };
constexpr bool holds(std::uint16_t suites, Suite suite) { return (suites & static_cast<std::uint16_t>(suite)) != 0; }
/// The messages that a connection protects: all requests and replies, also all bulk data, or none. None if the kernel
/// vouches for both ends, or if the file system has no keys.
enum class Protect : std::uint8_t { kNone = 0, kControl = 1, kData = 2 };

/// Follows HelloRequest from version 2 on: the initiator's key and abilities, and the server that it wants to reach.
struct HelloOffer {
  static constexpr std::string_view kName = "hello offer";
  ServerId server;  // the wanted server; 0: any server at a URL that a person gave
  KeyId key_id{};   // wire::FileKey::id(); zeros: no key
  Bytes user_key;   // a user's key: its restrictions, and key_id is its issuer's; or a credential of munge; else empty
  std::uint16_t suites = static_cast<std::uint16_t>(Suite::kUmac64);
  Protect protect = Protect::kControl;  // the least protection that the initiator accepts on a network
  template <typename A>
  void fields(A& a) {
    a(server, key_id, user_key, suites, protect);
  }
};
/// Follows HelloReply from version 2 on.
struct HelloAnswer {
  static constexpr std::string_view kName = "hello answer";
  Suite suite = Suite::kNone;
  Protect protect = Protect::kNone;
  std::string reached;  // bmi::PeerInfo::reached: the address at which the acceptor was reached; the initiator compares
                        // it with the one it connected to
  Proof server_mac{};   // over everything before it (wire::Transcript); zeros without a key
  template <typename A>
  void fields(A& a) {
    a(suite, protect, reached, server_mac);
  }
};

enum class PeerKind : std::uint8_t { kClient = 1, kServer = 2 };

/// The second request on every connection: proves the key and joins (or opens) a session.
struct AuthenticateRequest {
  static constexpr Op kOp = Op::kAuthenticate;
  static constexpr std::string_view kName = "authenticate request";
  PeerKind kind = PeerKind::kClient;
  /// Kind client. Meta server: 0 opens a new session; else it resumes that one. io server: must match the ticket. Kind
  /// server: the number of the server that asks; 0: it has none.
  ClientId client;
  /// Grows with each new set of connections of this client (docs/consistency.md, "Resends").
  std::uint64_t incarnation = 0;
  Credential credential;
  std::string description;              // "host:pid:program" or "host:pid:program:tag", for `spate top` and logs
  std::optional<SessionTicket> ticket;  // io servers: from the meta server; meta: to resume
  Nonce server_nonce{};                 // as given by hello
  /// Version 1: HMAC under the client key (kind client) or the server key (kind server) over the fields above; see
  /// auth_proof().
  Mac proof{};
  template <typename A>
  void fields(A& a) {
    a(kind, client, incarnation, credential, description, ticket, server_nonce, proof);
  }
};
/// Follows AuthenticateRequest from version 2 on; that one's `proof` is zeros then.
struct AuthenticateFinish {
  static constexpr std::string_view kName = "authenticate finish";
  Proof finished{};  // over everything before it (wire::Transcript); zeros without a key
  template <typename A>
  void fields(A& a) {
    a(finished);
  }
};
struct AuthenticateReply {
  static constexpr std::string_view kName = "authenticate reply";
  ClientId client;
  std::uint32_t epoch = 0;
  SessionTicket ticket;            // from the meta server; io servers repeat the one they got
  std::uint32_t lease_ms = 0;      // the session ends if the server hears nothing for this long
  WallTime fs_time;                // the file system's clock, now
  std::uint16_t answer_slots = 0;  // the number of RequestId slots that the client may use (meta)
  Mac server_proof{};              // version 1: HMAC over both nonces, which proves that the server knows the key, too
  template <typename A>
  void fields(A& a) {
    a(client, epoch, ticket, lease_ms, fs_time, answer_slots, server_proof);
  }
};

/// Version 1: the value that `proof` must have. `client_nonce` is the one that this client sent in hello.
Mac auth_proof(const Key& key, const AuthenticateRequest& request, const Nonce& client_nonce);
Mac server_proof(const Key& key, const Nonce& server_nonce, const Nonce& client_nonce);

struct PingRequest {
  static constexpr Op kOp = Op::kPing;
  static constexpr std::string_view kName = "ping request";
  Bytes payload;  // the reply returns it
  template <typename A>
  void fields(A& a) {
    a(payload);
  }
};
struct PingReply {
  static constexpr std::string_view kName = "ping reply";
  Bytes payload;
  ServerId server;
  std::vector<std::string> roles;
  std::uint64_t pid = 0;
  std::uint64_t uptime_ms = 0;
  std::string software;
  template <typename A>
  void fields(A& a) {
    a(payload, server, roles, pid, uptime_ms, software);
  }
};

struct StatsRequest {
  static constexpr Op kOp = Op::kStats;
  static constexpr std::string_view kName = "stats request";
  template <typename A>
  void fields(A&) {}
};
struct StatsReply {
  static constexpr std::string_view kName = "stats reply";
  Bytes snapshot;  // a metrics snapshot (docs/wire.md, "Metrics snapshot")
  template <typename A>
  void fields(A& a) {
    a(snapshot);
  }
};

/// The kinds of requests that a load is counted by. The number is the place in ClientLoad::kinds.
enum class LoadKind : std::uint8_t { kRead = 0, kWrite = 1, kLook = 2, kChange = 3 };
constexpr std::size_t kLoadKinds = 4;

/// The requests since ClientLoad::since_ns. No count ever falls.
struct LoadCounts {
  std::uint64_t requests = 0;  // that were answered
  std::uint64_t failed = 0;    // of these, with an error
  std::uint64_t time_ns = 0;   // the sum over all of them, from arrival to answer
  std::uint64_t bytes = 0;     // of file data
  template <typename A>
  void fields(A& a) {
    a(requests, failed, time_ns, bytes);
  }
};
struct ClientLoad {
  PeerKind kind = PeerKind::kClient;  // kServer: all servers together, and other holders of their key
  ClientId client;
  std::uint32_t uid = 0;
  std::string description;     // as in AuthenticateRequest, printable, at most kMaxLoadDescription bytes
  std::uint64_t since_ns = 0;  // when the counts began, on the clock of ListLoadsReply::now_ns
  std::vector<LoadCounts> kinds;
  template <typename A>
  void fields(A& a) {
    a(kind, client, uid, description, since_ns, kinds);
  }
};
constexpr std::size_t kMaxLoadDescription = 256;

/// Asks for the clients that load the server most.
struct ListLoadsRequest {
  static constexpr Op kOp = Op::kListLoads;
  static constexpr std::string_view kName = "list loads request";
  template <typename A>
  void fields(A&) {}
};
struct ListLoadsReply {
  static constexpr std::string_view kName = "list loads reply";
  std::uint64_t now_ns = 0;           // since the server was started
  std::vector<ClientLoad> clients;    // in no order
  std::vector<LoadCounts> others;     // the sums of clients that are not in the list any more
  std::uint64_t clients_dropped = 0;  // how often a client made room for another
  template <typename A>
  void fields(A& a) {
    a(now_ns, clients, others, clients_dropped);
  }
};

struct FileLoad {
  Handle file;
  std::uint64_t since_ns = 0;  // when the counts began, on the clock of ListFileLoadsReply::now_ns
  std::vector<LoadCounts> kinds;
  template <typename A>
  void fields(A& a) {
    a(file, since_ns, kinds);
  }
};

/// Asks for the files that are read and written most. A meta server has none.
struct ListFileLoadsRequest {
  static constexpr Op kOp = Op::kListFileLoads;
  static constexpr std::string_view kName = "list file loads request";
  template <typename A>
  void fields(A&) {}
};
struct ListFileLoadsReply {
  static constexpr std::string_view kName = "list file loads reply";
  std::uint64_t now_ns = 0;         // since the server was started
  std::vector<FileLoad> files;      // in no order
  std::vector<LoadCounts> others;   // the sums of files that are not in the list any more
  std::uint64_t files_dropped = 0;  // how often a file made room for another
  template <typename A>
  void fields(A& a) {
    a(now_ns, files, others, files_dropped);
  }
};

struct KeepAliveRequest {
  static constexpr Op kOp = Op::kKeepAlive;
  static constexpr std::string_view kName = "keep alive request";
  template <typename A>
  void fields(A&) {}
};
struct KeepAliveReply {
  static constexpr std::string_view kName = "keep alive reply";
  WallTime fs_time;
  SessionTicket ticket;  // with a new expiry
  template <typename A>
  void fields(A& a) {
    a(fs_time, ticket);
  }
};

struct EndSessionRequest {
  static constexpr Op kOp = Op::kEndSession;
  static constexpr std::string_view kName = "end session request";
  template <typename A>
  void fields(A&) {}
};
using EndSessionReply = Empty;

}  // namespace spate::wire
