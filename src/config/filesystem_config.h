// SPDX-License-Identifier: Apache-2.0
// FileSystemConfig: the contents of spate.toml. One file describes a file system for all of its servers and clients.
// docs/config.md lists the keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "model/cluster_map.h"
#include "model/ids.h"

namespace spate::config {

/// The condition for a client's admission at an address of a server. kNone admits everybody who reaches the address,
/// which must be one of the server's own machine only. kTls: a client needs a certificate, and no key. kMunge: a
/// credential of munge, and no key. Servers prove the server key to each other at each address.
enum class Auth : std::uint8_t { kKey = 0, kNone = 1, kTls = 2, kMunge = 3 };
/// "key".
std::string_view auth_word(Auth auth);
/// The storage module. kAuto: io_uring if the kernel allows it, else the thread pool. kMemory: everything is lost when
/// the server ends; for tests and measurements of the network.
enum class TroveKind : std::uint8_t { kAuto = 0, kUring = 1, kPool = 2, kMemory = 3 };
enum class LogFormat : std::uint8_t { kText = 0, kJson = 1 };

/// [fs]
struct FsConfig {
  FsId id;                      // required, not 0; written as hex digits
  std::string name = "spate";   // 1..64 of a-z A-Z 0-9 . _ -
  Auth auth = Auth::kKey;       // of the addresses of servers that have no `auth` of their own
  std::string client_key_file;  // required where an address asks for a key
  std::string server_key_file;  // required unless all addresses ask for nothing, on servers only read
  friend bool operator==(const FsConfig&, const FsConfig&) = default;
};

/// The messages that are protected against alteration on a network.
enum class Protect : std::uint8_t { kControl = 0, kData = 1 };

/// [auth]: the security that a handshake must have.
struct AuthConfig {
  bool nat = false;       // clients may reach servers at addresses other than the servers' own (NAT)
  bool allow_v1 = false;  // admit peers of version 1 of the protocol
  bool munge =
      false;  // servers: users are admitted by munge, too; clients: they prove their user by munge, not by a key
  std::string munge_socket;                // of munged; empty: libmunge's own
  std::string munge_server_user = "root";  // the user that the servers run as
  Protect protect = Protect::kControl;
  friend bool operator==(const AuthConfig&, const AuthConfig&) = default;
};

/// [tls]: how tcp+tls:// addresses are encrypted.
struct TlsConfig {
  std::string ca;  // PEM files, all or none; none: the keys of the file system
  std::string certificate;
  std::string key;
  std::string revoked;     // lists of revoked certificates; empty: none is looked at
  bool plain_too = false;  // a server with a tcp+tls address may have unencrypted network addresses, too
  friend bool operator==(const TlsConfig&, const TlsConfig&) = default;
};

/// [defaults]: the layout of files whose directory has no hints.
struct DefaultsConfig {
  std::uint64_t strip_bytes = 1ULL << 20U;  // 4 KiB..4 GiB
  std::uint32_t strip_count = 0;            // number of targets of a file, 0..4096; 0 = all
  std::uint32_t replicas = 1;               // copies of a file's data, on different io servers, 1..8
  std::uint32_t min_copies = 1;             // of them, as many must be there for a change to be answered, 1..8
  friend bool operator==(const DefaultsConfig&, const DefaultsConfig&) = default;
};

constexpr std::size_t kMostCoordinatorUrls = 16;
constexpr std::size_t kMostMetaServers = 5;

/// [meta]: the name space.
struct MetaConfig {
  /// The longest time for which a crash of the machine may lose a name-space change: 1 ms..60 s; 0 (written "commit"):
  /// a change is durable when it is acknowledged.
  Duration sync = std::chrono::milliseconds(100);
  /// A client that is silent for this long loses its session and its locks, 1 s..1 h.
  Duration session_lease = std::chrono::seconds(30);
  /// URLs of the etcd cluster that says which of several meta servers leads: "https://10.0.0.1:2379"; 0..16.
  std::vector<std::string> coordinator;
  /// With fewer meta servers that hold everything, changes wait; 1..5, at most the number of meta servers. The group's
  /// record gets it when it is made.
  std::uint32_t min_copies = 1;
  /// NetworkConfig::server_busy_poll of several meta servers, unless that is longer; 0..10 ms.
  Duration busy_poll = std::chrono::microseconds(100);
  /// Folder with ca.pem, cert.pem and key.pem: needed if the URLs begin with https://, which all of them do then.
  std::string coordinator_tls;
  friend bool operator==(const MetaConfig&, const MetaConfig&) = default;
};

/// The roles of a server. Other servers and clients know those of the base class.
struct ServerRoles : Roles {
  bool block = false;  // block exports, which only NBD clients use
  friend bool operator==(const ServerRoles&, const ServerRoles&) = default;
};

/// One of [[servers]]: one process.
struct ServerConfig {
  ServerId id;                       // required, 1..65535, unique
  std::vector<std::string> urls;     // required, 1..8, in order of preference
  std::vector<Auth> auth;            // for each of `urls`, or one for all; empty: fs.auth
  ServerRoles roles;                 // required
  std::vector<std::string> storage;  // 1..256 folders of an io server, each a target; only append
  std::string keyval;                // folder of a meta server's store
  std::string rack;                  // of its machine, as is_rack_name() demands; empty: not known
  TroveKind trove = TroveKind::kAuto;
  friend bool operator==(const ServerConfig&, const ServerConfig&) = default;
};

/// The path by which servers move data. kAuto: the server chooses for each request. Another one is used, or the request
/// is refused; but where kPeerToPeer is not possible, the server uses the next best path.
enum class FlowPath : std::uint8_t { kAuto = 0, kBuffered = 1, kDirect = 2, kPeerToPeer = 3, kCached = 4 };

/// What clients on a server's machine may do with datafiles directly.
enum class Bypass : std::uint8_t { kOff = 0, kRead = 1, kWrite = 2 };

/// [flow]: the data paths of io servers (docs/data-paths.md).
struct FlowConfig {
  FlowPath read_path = FlowPath::kAuto;
  FlowPath write_path = FlowPath::kAuto;  // not kCached
  std::uint64_t direct_from = 0;  // bytes: datafiles of at least this size bypass the page cache; 0: half of the memory
  std::string p2p_memory;         // file to map; empty: none
  std::uint64_t p2p_size = 16ULL << 20U;               // bytes of it for each server, 4 MiB..64 GiB
  Bypass bypass = Bypass::kRead;                       // the most that a server allows
  Duration recall_deadline = std::chrono::seconds(5);  // 10 ms..5 min
  std::uint64_t rebuild_rate = 0;                      // bytes a second; 0: no limit
  Duration rebuild_after = std::chrono::minutes(15);   // 0: never; up to 30 days
  friend bool operator==(const FlowConfig&, const FlowConfig&) = default;
};

/// [block]: the addresses at which servers with the role block listen for NBD clients (docs/block.md).
struct BlockConfig {
  std::vector<std::string> addresses = {"127.0.0.1"};  // 0..16
  std::uint64_t port = 10809;                          // 1..65535
  std::string unix_path;                               // of a socket; empty: none
  std::string tls;                                     // folder of certificates; empty: none
  std::string tls_psk;                                 // file of keys; empty: none
  bool insecure = false;                               // allow other machines to connect without TLS
  friend bool operator==(const BlockConfig&, const BlockConfig&) = default;
};

/// One of [[exports]].
struct ExportConfig {
  std::string name;    // required, unique, 1..255 characters
  std::string source;  // required: an absolute path on the server's machine, or "spate:/path"
  ServerId server;     // 0: each server with the role block
  bool read_only = false;
  std::vector<std::string> allow;  // 0..256 addresses, networks, "unix", "cert:NAME", "psk:NAME"; empty: everybody
  friend bool operator==(const ExportConfig&, const ExportConfig&) = default;
};

/// When reading a file updates its atime; named as in mount(8).
enum class AtimePolicy : std::uint8_t { kRelatime = 0, kNoatime = 1, kStrictatime = 2 };

/// The clients that cache attributes and names under leases. kOn: mounts. kAll: programs as well, which may be killed
/// or stopped at any time.
enum class AttributeCache : std::uint8_t { kOff = 0, kOn = 1, kAll = 2 };

constexpr std::size_t kMaxTagBytes = 64;

/// [client]
struct ClientConfig {
  Duration deadline = std::chrono::seconds(30);         // of one request, resends included; 10 ms..1 h
  Duration busy_poll = std::chrono::microseconds(100);  // before it sleeps, 0..10 ms
  Bypass bypass = Bypass::kRead;                        // the most that a client asks for
  AtimePolicy atime = AtimePolicy::kRelatime;
  AttributeCache attribute_cache = AttributeCache::kOn;
  std::string tag;  // what the client works for; empty: its batch job
  friend bool operator==(const ClientConfig&, const ClientConfig&) = default;
};

/// [log]: for servers and the command.
struct LogConfig {
  std::string level = "info";  // "warn", or with folders: "info,bmi=debug"
  LogFormat format = LogFormat::kText;
  std::string file;                                 // empty: standard error
  std::string audit;                                // a server's audit log; empty: none
  Duration slow_request = std::chrono::seconds(5);  // from then on a server logs a request as slow; 0: none; up to 1 h
  friend bool operator==(const LogConfig&, const LogConfig&) = default;
};

/// [metrics]: each server's page for Prometheus and health checks.
struct MetricsConfig {
  std::string address = "127.0.0.1";  // a numeric address of the machine; callers need no authentication
  std::uint64_t port = 0;             // of server 1, 0..65535; server N has port + N - 1. 0: no page
  friend bool operator==(const MetricsConfig&, const MetricsConfig&) = default;
};

/// [network]: limits of the network layer; the same on both sides.
struct NetworkConfig {
  /// Bytes, 0..1 MiB: messages up to this size are sent without asking the receiver.
  std::uint64_t eager_limit = 16ULL << 10U;
  std::uint64_t copy_limit = 16ULL << 10U;       // bytes, 0..1 MiB: over RDMA, messages up to this size are copied
  std::uint64_t max_unexpected = 256ULL << 10U;  // bytes, 16 KiB..16 MiB: the largest request
  /// Bytes, 64 KiB..1 GiB: the most that one peer can make the other buffer.
  std::uint64_t buffered_per_peer = 1ULL << 20U;
  Duration connect_timeout = std::chrono::seconds(3);  // 10 ms..5 min
  Duration idle_close = std::chrono::minutes(10);      // 1 s..24 h: an unused connection is closed after this time
  Duration server_busy_poll = Duration(0);             // before a server sleeps, 0..10 ms
  /// Users that may use a server's shm:// address: "same", "any", or user ids with commas.
  std::string shm_users = "same";
  std::string shm_server_users = "same";  // users, besides root, whose shm:// listeners a client trusts; likewise
  friend bool operator==(const NetworkConfig&, const NetworkConfig&) = default;
};

/// The contents of a file after all checks; an immutable value. Config is not passed down: a constructor takes the few
/// values that it needs.
struct FileSystemConfig {
  FsConfig fs;
  AuthConfig auth;
  TlsConfig tls;
  DefaultsConfig defaults;
  MetaConfig meta;
  FlowConfig flow;
  BlockConfig block;
  std::vector<ServerConfig> servers;  // 1..4096
  std::vector<ExportConfig> exports;  // 0..1024
  ClientConfig client;
  LogConfig log;
  MetricsConfig metrics;
  NetworkConfig network;

  /// Null when there is none.
  const ServerConfig* find_server(ServerId id) const;
  friend bool operator==(const FileSystemConfig&, const FileSystemConfig&) = default;
};

/// The proof that the address `server.urls[at]` asks of clients.
Auth auth_at(const FileSystemConfig& config, const ServerConfig& server, std::size_t at);
/// Whether an address of the server, or of any server, asks for it.
bool asks_for(const FileSystemConfig& config, const ServerConfig& server, Auth auth);
bool asks_for(const FileSystemConfig& config, Auth auth);

/// Whether it is an address of TCP, encrypted or not.
inline bool is_tcp_url(std::string_view url) { return url.starts_with("tcp://") || url.starts_with("tcp+tls://"); }

/// The map that servers and clients start from. A target's number is server * 256 + index in its storage list.
ClusterMap cluster_map(const FileSystemConfig& config);

}  // namespace spate::config
