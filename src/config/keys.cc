// SPDX-License-Identifier: Apache-2.0
#include "config/keys.h"

#include <array>
#include <cctype>

#include "base/units.h"
#include "config/key_rows.h"
#include "model/layout.h"

namespace spate::config {
namespace {

constexpr const char* kAuthWords = "key|none|tls|munge";
constexpr std::uint64_t kKiB = 1ULL << 10U;
constexpr std::uint64_t kMiB = 1ULL << 20U;
constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kSecond = 1'000'000'000;

constexpr std::array<Section, 13> kSections = {{
    {"fs", "The file system as a whole."},
    {"auth",
     "How servers and clients prove to each other who they are, and which data nobody can alter on the network."},
    {"tls",
     "How tcp+tls:// addresses are encrypted (TLS 1.3). Both sides use certificates, or, if they have none, the keys "
     "of the file system (docs/operating.md, Encryption)."},
    {"defaults", "The layout of files whose directory says nothing else."},
    {"meta", "The name space."},
    {"flow", "How io servers move data."},
    {"block", "Where servers with the role block listen for NBD clients (docs/block.md)."},
    {"client", "What clients do."},
    {"network", "Limits of the network layer, the same on both sides."},
    {"log", "What servers log."},
    {"metrics", "The page of each server for Prometheus and health checks (docs/operating.md, Watching)."},
    {"servers", "The servers, one process each.", true,
     [](const FileSystemConfig& config) { return config.servers.size(); },
     [](FileSystemConfig& config) { config.servers.emplace_back(); }},
    {"exports", "What servers with the role block serve: one network block device each.", true,
     [](const FileSystemConfig& config) { return config.exports.size(); },
     [](FileSystemConfig& config) { config.exports.emplace_back(); }},
}};

std::vector<Key> auth_rows() {
  return {
      row<&Config::auth, &AuthConfig::nat>(
          {"auth", "nat", Type::kChoice,
           "yes: a client may reach a server at another address than the one that it dials, as behind address "
           "translation. Then nobody notices a relay between them. A relay can alter file data, but no request.",
           "no|yes"}),
      row<&Config::auth, &AuthConfig::allow_v1>(
          {"auth", "allow_v1", Type::kChoice,
           "yes: servers and clients also speak version 1 of the protocol, whose handshake a relay can abuse. Use it "
           "only during an upgrade: upgrade the servers, then the clients, then set it to no.",
           "no|yes"}),
      row<&Config::auth, &AuthConfig::munge>(
          {"auth", "munge", Type::kChoice,
           "yes: a client proves by the cluster's MUNGE service which user it is, instead of by a key. A server admits "
           "such users beside those with keys. Root is squashed. SPATE_AUTH_MUNGE=no makes a client use the key, for "
           "machines that mount for several users, and for operators.",
           "no|yes"}),
      row<&Config::auth, &AuthConfig::munge_socket>({"auth", "munge_socket", Type::kPath,
                                                     "Socket of munged. Empty: the place where libmunge expects it.",
                                                     "", 0, kMaxText}),
      row<&Config::auth, &AuthConfig::munge_server_user>(
          {"auth", "munge_server_user", Type::kText,
           "The user that the servers run as, by name or number. same: the client's own user. Nobody else can read "
           "what clients send by munge.",
           "", 1, kMaxText}),
      row<&Config::auth, &AuthConfig::protect>(
          {"auth", "protect", Type::kChoice,
           "control: nobody can alter requests and replies on the network. data: nobody can alter file data either. "
           "Then each MiB costs both sides some 0.15 ms of a processor, and servers no longer send out of the page "
           "cache. If a client and a server differ, the stricter setting holds. It does not apply to shm, which uses "
           "no network.",
           "control|data"}),
  };
}

std::vector<Key> tls_rows() {
  return {
      row<&Config::tls, &TlsConfig::ca>({"tls", "ca", Type::kPath,
                                         "PEM file with the certificates that have signed those of all servers and "
                                         "clients. Give certificate and key as well, or none of the three.",
                                         "", 0, kMaxText}),
      row<&Config::tls, &TlsConfig::certificate>(
          {"tls", "certificate", Type::kPath,
           "PEM file with the certificate of this server or client. A server's certificate names the host of its "
           "address (subjectAltName). The file is read again when it changes.",
           "", 0, kMaxText}),
      row<&Config::tls, &TlsConfig::key>(
          {"tls", "key", Type::kPath,
           "PEM file with the certificate's private key. Others must not be able to read it (mode 0600 or 0640).", "",
           0, kMaxText}),
      row<&Config::tls, &TlsConfig::revoked>(
          {"tls", "revoked", Type::kPath,
           "PEM file with a revocation list (CRL) of each authority in tls.ca. Certificates in a list are refused. "
           "Once a list has expired, all certificates are refused. The file is read again when it changes. Empty: "
           "there are no lists.",
           "", 0, kMaxText}),
      row<&Config::tls, &TlsConfig::plain_too>(
          {"tls", "plain_too", Type::kChoice,
           "yes: a server with a tcp+tls:// address may also have addresses of other networks, while you change to "
           "TLS. Clients use these when TLS does not work, so an attacker who disturbs TLS makes them send in clear.",
           "no|yes"}),
  };
}

std::vector<Key> fs_rows() {
  return {
      row<&Config::fs, &FsConfig::id>(
          {"fs", "id", Type::kHexId,
           "Random number that identifies this file system. Servers refuse servers and clients of other file systems.",
           "", 1, UINT64_MAX, true}),
      row<&Config::fs, &FsConfig::name>(
          {"fs", "name", Type::kText, "Name for people. df and mount --status show it.", "", 1, 64}),
      row<&Config::fs, &FsConfig::auth>(
          {"fs", "auth", Type::kChoice,
           "key: clients and servers prove that they hold the key files. none: a server lets in everybody who reaches "
           "it. Use that only with servers that no other machine can reach (127.0.0.1, [::1], localhost, shm). tls: "
           "clients show a certificate that tls.ca has signed, and may act for any user. That works only with "
           "tcp+tls:// and shm://. munge: the cluster's MUNGE service says who the user is, and no key counts. "
           "servers.auth sets it for each address.",
           kAuthWords}),
      row<&Config::fs, &FsConfig::client_key_file>(
          {"fs", "client_key_file", Type::kPath,
           "File (mode 0600, 64 hex digits) with the key that lets clients in. auth = \"key\" needs it. Further lines "
           "are keys that servers still accept (docs/operating.md, New keys). A client may use a user's key instead "
           "(spate key issue).",
           "", 0, kMaxText}),
      row<&Config::fs, &FsConfig::server_key_file>(
          {"fs", "server_key_file", Type::kPath,
           "File (mode 0600, 64 hex digits) with the key that only servers hold. They seal capabilities with it. auth "
           "= \"key\" needs it. Further lines have the same meaning as in client_key_file.",
           "", 0, kMaxText}),
  };
}

std::vector<Key> plain_rows() {
  return {
      row<&Config::defaults, &DefaultsConfig::strip_bytes>({"defaults", "strip_bytes", Type::kSize,
                                                            "Size of one target's contiguous piece of a file.", "",
                                                            kMinStripBytes, kMaxStripBytes}),
      row<&Config::defaults, &DefaultsConfig::strip_count>(
          {"defaults", "strip_count", Type::kCount, "Number of targets over which a file is spread. 0: all of them.",
           "", 0, kMaxSlots}),
      row<&Config::defaults, &DefaultsConfig::replicas>(
          {"defaults", "replicas", Type::kCount,
           "Number of copies of a file's data, each on another io server (docs/availability.md). `spate policy` sets "
           "it for a directory.",
           "", 1, kMaxReplicas}),
      row<&Config::defaults, &DefaultsConfig::min_copies>({"defaults", "min_copies", Type::kCount,
                                                           "With fewer copies, writes to a mirrored file wait, and "
                                                           "reads go on. `spate policy` sets it for a directory.",
                                                           "", 1, kMaxReplicas}),
      row<&Config::meta, &MetaConfig::sync>(
          {"meta", "sync", Type::kSync,
           "A crash of a machine may lose name-space changes that are younger than this. \"commit\": it loses none. An "
           "fsync of a file always covers its entry.",
           "", kMs, 60 * kSecond}),
      row<&Config::meta, &MetaConfig::session_lease>(
          {"meta", "session_lease", Type::kDuration,
           "A client that is silent for this long loses its session and its locks.", "", kSecond, 3600 * kSecond}),
      row<&Config::meta, &MetaConfig::coordinator>(
          {"meta", "coordinator", Type::kTextList,
           "Addresses of the etcd cluster that decides which of several meta servers leads (https://HOST:PORT, or "
           "http://). Needed with two or more servers of the role meta. These then hold the same name space "
           "(docs/availability.md).",
           "", 0, kMostCoordinatorUrls}),
      row<&Config::meta, &MetaConfig::min_copies>(
          {"meta", "min_copies", Type::kCount,
           "With fewer complete meta servers, changes of names wait. `spate coord min` changes it for a file system.",
           "", 1, kMostMetaServers}),
      row<&Config::meta, &MetaConfig::busy_poll>(
          {"meta", "busy_poll", Type::kDuration,
           "network.server_busy_poll for several meta servers, which wait for each other's answers in each change. If "
           "both are set, the longer time counts.",
           "", 0, 10 * kMs}),
      row<&Config::meta, &MetaConfig::coordinator_tls>(
          {"meta", "coordinator_tls", Type::kPath,
           "For https://: a folder with ca.pem, cert.pem and key.pem, by which etcd and the meta servers prove to each "
           "other who they are. Others must not be able to read key.pem (mode 0600 or 0640).",
           "", 0, kMaxText}),
      row<&Config::flow, &FlowConfig::read_path>(
          {"flow", "read_path", Type::kChoice,
           "The data path of reads that request none. auto: the server chooses. p2p: the server uses p2p_memory where "
           "it can, else the next best path. The other paths are for measurements: a read that such a path cannot "
           "serve fails.",
           "auto|buffered|direct|p2p|cached"}),
      row<&Config::flow, &FlowConfig::write_path>(
          {"flow", "write_path", Type::kChoice, "The same for writes.", "auto|buffered|direct|p2p"}),
      row<&Config::flow, &FlowConfig::direct_from>(
          {"flow", "direct_from", Type::kSize,
           "Servers read and write datafiles of at least this size past the page cache, except for what is in it. 0: "
           "half of the machine's memory.",
           "", 0, 1ULL << 50U}),
      row<&Config::flow, &FlowConfig::p2p_memory>(
          {"flow", "p2p_memory", Type::kPath,
           "Memory of a PCI device for the p2p path: /sys/bus/pci/devices/DEVICE/p2pmem/allocate. A server that cannot "
           "map it logs that and works without it. Empty: none.",
           "", 0, kMaxText}),
      row<&Config::flow, &FlowConfig::p2p_size>({"flow", "p2p_size", Type::kSize,
                                                 "How much of that memory each server takes.", "", 4 * kMiB,
                                                 64 * kKiB * kMiB}),
      row<&Config::flow, &FlowConfig::bypass>(
          {"flow", "bypass", Type::kChoice,
           "What clients on a server's own machine that connect by shm:// may do to datafiles by themselves, under a "
           "lease. write: they may also write them, if they run as the server's user.",
           "off|read|write"}),
      row<&Config::flow, &FlowConfig::recall_deadline>({"flow", "recall_deadline", Type::kDuration,
                                                        "How long a client may go on after its lease was recalled. "
                                                        "Then the server fences it and copies the datafile.",
                                                        "", 10 * kMs, 300 * kSecond}),
      row<&Config::flow, &FlowConfig::rebuild_rate>(
          {"flow", "rebuild_rate", Type::kSize,
           "How much each io server copies a second to servers that come back and lack data of mirrored files "
           "(docs/availability.md). 0: as much as it can.",
           "", 0, 1ULL << 50U}),
      row<&Config::flow, &FlowConfig::rebuild_after>({"flow", "rebuild_after", Type::kDuration,
                                                      "How long an io server may stay away before other servers "
                                                      "receive copies of the mirrored files that it keeps. "
                                                      "0: they never do.",
                                                      "", 0, 30 * 86400 * kSecond}),
      row<&Config::client, &ClientConfig::deadline>(
          {"client", "deadline", Type::kDuration,
           "How long a request may take that a server does not answer, resends included. Then it fails.", "", 10 * kMs,
           3600 * kSecond}),
      row<&Config::client, &ClientConfig::busy_poll>(
          {"client", "busy_poll", Type::kDuration,
           "How long a waiting client polls the network before it sleeps. It does so while answers come within this "
           "time, and then gets them up to twice as fast. 0: it sleeps at once.",
           "", 0, 10 * kMs}),
      row<&Config::client, &ClientConfig::bypass>(
          {"client", "bypass", Type::kChoice,
           "What clients do by themselves to datafiles of servers on their own machine, where flow.bypass allows it.",
           "off|read|write"}),
      row<&Config::client, &ClientConfig::atime>(
          {"client", "atime", Type::kChoice,
           "When reading changes a file's atime. relatime: if atime is not later than the last change, or a day old. "
           "strictatime: always. The client reports it with the close.",
           "relatime|noatime|strictatime"}),
      row<&Config::client, &ClientConfig::attribute_cache>(
          {"client", "attribute_cache", Type::kChoice,
           "Which clients keep attributes and names under leases. The meta server recalls these leases before it "
           "changes anything. on: mounts. all: also programs that use the preload library or libspate.",
           "off|on|all"}),
      row<&Config::client, &ClientConfig::tag>(
          {"client", "tag", Type::kText,
           "What a client works for. `spate top` and the servers' logs show it. Empty: the number of its batch job, "
           "from SLURM_JOB_ID, PBS_JOBID, LSB_JOBID or FLUX_JOB_ID.",
           "", 0, kMaxTagBytes}),
      row<&Config::network, &NetworkConfig::eager_limit>(
          {"network", "eager_limit", Type::kSize,
           "Messages of at most this size leave at once. For a larger one, the sender asks the receiver first.", "", 0,
           kMiB}),
      row<&Config::network, &NetworkConfig::copy_limit>(
          {"network", "copy_limit", Type::kSize,
           "RDMA: larger messages of at most this size are copied, unless their memory is registered already.", "", 0,
           kMiB}),
      row<&Config::network, &NetworkConfig::max_unexpected>({"network", "max_unexpected", Type::kSize,
                                                             "The largest request that a server accepts.", "",
                                                             16 * kKiB, 16 * kMiB}),
      row<&Config::network, &NetworkConfig::buffered_per_peer>(
          {"network", "buffered_per_peer", Type::kSize, "How much memory one peer can make the other side fill.", "",
           64 * kKiB, kKiB * kMiB}),
      row<&Config::network, &NetworkConfig::connect_timeout>({"network", "connect_timeout", Type::kDuration,
                                                              "How long one attempt to reach one address may take.", "",
                                                              10 * kMs, 300 * kSecond}),
      row<&Config::network, &NetworkConfig::idle_close>(
          {"network", "idle_close", Type::kDuration,
           "The side that made a connection closes it when nobody has needed it for this long. It makes a new one when "
           "one is needed.",
           "", kSecond, 86'400 * kSecond}),
      row<&Config::network, &NetworkConfig::server_busy_poll>(
          {"network", "server_busy_poll", Type::kDuration,
           "client.busy_poll for servers. It pays off where nothing else needs their processors. 0: they sleep at "
           "once, which leaves the processors to other programs on the machine.",
           "", 0, 10 * kMs}),
      row<&Config::network, &NetworkConfig::shm_users>(
          {"network", "shm_users", Type::kText,
           "Who may reach a server by shared memory, besides root: same (the server's own user), any, or user ids "
           "(\"1000,1001\").",
           "", 1, kMaxText}),
      row<&Config::network, &NetworkConfig::shm_server_users>(
          {"network", "shm_server_users", Type::kText,
           "Which users' servers a client (or server) connects to by shared memory, besides root's: same (its own "
           "user), any, or user ids (\"990\"). It passes by other users who have bound a server's name.",
           "", 1, kMaxText}),
      row<&Config::log, &LogConfig::level>(
          {"log", "level", Type::kText,
           "off, error, warn, info, debug or trace; with folders of the source: \"info,bmi=debug\".", "", 1, kMaxText}),
      row<&Config::log, &LogConfig::format>(
          {"log", "format", Type::kChoice, "Plain lines, or one JSON object a line.", "text|json"}),
      row<&Config::log, &LogConfig::file>({"log", "file", Type::kPath,
                                           "File of the log. Empty: standard error. It is opened anew on SIGHUP.", "",
                                           0, kMaxText}),
      row<&Config::log, &LogConfig::audit>({"log", "audit", Type::kPath,
                                            "File to which a server writes what it has refused and what operators have "
                                            "done, one JSON object a line. Empty: none. It is opened anew on SIGHUP.",
                                            "", 0, kMaxText}),
      row<&Config::log, &LogConfig::slow_request>(
          {"log", "slow_request", Type::kDuration,
           "A server logs each request that took this long: who sent it, where it waited, and its trace. 0: none.", "",
           0, 3600 * kSecond}),
      row<&Config::metrics, &MetricsConfig::address>(
          {"metrics", "address", Type::kText,
           "The numeric address at which servers answer GET /metrics and /healthz for every client that reaches it.",
           "", 1, 64}),
      row<&Config::metrics, &MetricsConfig::port>(
          {"metrics", "port", Type::kCount,
           "The port of server 1. Server N has this port + N - 1. 0: no server has such a page.", "", 0, 65535}),
  };
}

std::vector<Key> server_rows() {
  return {
      server_row<&ServerConfig::id>(
          {"", "id", Type::kCount, "Number of the server. No other server ever gets it.", "", 1, kMaxServerId, true}),
      server_row<&ServerConfig::urls>(
          {"", "urls", Type::kTextList,
           "Its addresses, the best first: tcp://host:port, tcp+tls://host:port, shm://name or shm:///path "
           "(same machine), ofi+PROVIDER://host:port.",
           "", 1, kMaxUrlsPerServer, true}),
      server_row<&ServerConfig::auth>(
          {"", "auth", Type::kWordList,
           "What these addresses ask of clients, as in fs.auth: a word for each of urls, or one for all. Empty: what "
           "fs.auth says. Servers prove the server key to each other at each address (docs/operating.md, Another "
           "proof at each address).",
           kAuthWords, 0, kMaxUrlsPerServer}),
      server_row<&ServerConfig::roles>({"", "roles", Type::kChoiceList,
                                        "meta: the name space. io: file data. block: block exports.", "meta|io|block",
                                        1, 3, true}),
      server_row<&ServerConfig::storage>({"", "storage", Type::kPathList,
                                          "Folders for file data, one for each device. Each is a target. Only append "
                                          "to the list: the place in it is the target's name.",
                                          "", 0, kMaxTargetsPerServer}),
      server_row<&ServerConfig::keyval>(
          {"", "keyval", Type::kPath, "Folder for the name space of a meta server.", "", 0, kMaxText}),
      server_row<&ServerConfig::rack>({"", "rack", Type::kText,
                                       "Its machine's rack. Copies go to different racks if there are enough of them.",
                                       "", 0, kMaxRackBytes}),
      server_row<&ServerConfig::trove>({"", "trove", Type::kChoice,
                                        "How the server drives its storage. auto: by io_uring where the kernel allows "
                                        "it, else by a thread pool. mem: in memory only, so that nothing is kept.",
                                        "auto|uring|pool|mem"}),
  };
}

const std::vector<Key>& table() {
  static const std::vector<Key> rows = [] {
    std::vector<Key> all = fs_rows();
    for (auto part : {auth_rows(), tls_rows(), plain_rows(), server_rows(), block_rows()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

}  // namespace

std::span<const Section> sections() { return kSections; }
std::span<const Key> keys() { return table(); }

Value default_value(const Key& key) { return key.get(FileSystemConfig(), 0); }

}  // namespace spate::config
