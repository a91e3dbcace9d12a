// SPDX-License-Identifier: Apache-2.0
#include "config/keys.h"

#include <array>
#include <cctype>

#include "base/units.h"
#include "config/key_rows.h"
#include "model/layout.h"

namespace spate::config {
namespace {

using Config = FileSystemConfig;
constexpr std::uint64_t kMaxText = 4096;
constexpr std::uint64_t kKiB = 1ULL << 10U;
constexpr std::uint64_t kMiB = 1ULL << 20U;
constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kSecond = 1'000'000'000;

constexpr std::array<Section, 12> kSections = {{
    {"fs", "The file system as a whole."},
    {"auth", "How servers and clients prove to each other who they are, and what they keep from being altered."},
    {"tls",
     "How tcp+tls:// addresses are encrypted (TLS 1.3): by certificates of both sides, or, without these, by the keys "
     "of the file system (docs/operating.md, Encryption)."},
    {"defaults", "The layout of files whose directory says nothing else."},
    {"meta", "The name space."},
    {"flow", "How io servers move data."},
    {"block", "Where servers with the role block listen for NBD clients (docs/block.md)."},
    {"client", "What clients do."},
    {"network", "Limits of the network layer, the same on both sides."},
    {"log", "What servers write down."},
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
           "yes: a server may be reached at another address than the one that was dialled, as behind address "
           "translation. A relay on the way is no longer noticed; it can alter file data, but no request.",
           "no|yes"}),
      row<&Config::auth, &AuthConfig::allow_v1>(
          {"auth", "allow_v1", Type::kChoice,
           "yes: servers and clients of version 1 of the protocol are spoken to, whose handshake a relay can abuse. "
           "For the time of an upgrade only: servers first, then clients, then no again.",
           "no|yes"}),
      row<&Config::auth, &AuthConfig::munge>(
          {"auth", "munge", Type::kChoice,
           "yes: a client proves by the cluster's MUNGE service which user it is, instead of by a key; a server admits "
           "such users beside those with keys. Root is squashed. On machines that mount for several users, and for "
           "operators, SPATE_AUTH_MUNGE=no keeps to the key.",
           "no|yes"}),
      row<&Config::auth, &AuthConfig::munge_socket>({"auth", "munge_socket", Type::kPath,
                                                     "Socket of munged. Empty: where libmunge expects it.", "", 0,
                                                     kMaxText}),
      row<&Config::auth, &AuthConfig::munge_server_user>(
          {"auth", "munge_server_user", Type::kText,
           "The user whose processes the servers are, by name or number, or same (the client's own): nobody else can "
           "read what clients send by munge.",
           "", 1, kMaxText}),
      row<&Config::auth, &AuthConfig::protect>(
          {"auth", "protect", Type::kChoice,
           "control: requests and replies cannot be altered on the network. data: file data neither; each MiB costs "
           "both sides some 0.15 ms of a processor, and servers no longer send out of the page cache. If a "
           "client and a server differ, the stricter setting holds. Not for shm, which uses no network.",
           "control|data"}),
  };
}

std::vector<Key> tls_rows() {
  return {
      row<&Config::tls, &TlsConfig::ca>({"tls", "ca", Type::kPath,
                                         "PEM file with the certificates that have signed those of all servers and "
                                         "clients. With certificate and key, "
                                         "or none of them.",
                                         "", 0, kMaxText}),
      row<&Config::tls, &TlsConfig::certificate>(
          {"tls", "certificate", Type::kPath,
           "PEM file with the certificate of this server or client. A server's names the host of its address "
           "(subjectAltName). Read again when it changes.",
           "", 0, kMaxText}),
      row<&Config::tls, &TlsConfig::key>(
          {"tls", "key", Type::kPath, "PEM file with its private key, which others cannot read (mode 0600 or 0640).",
           "", 0, kMaxText}),
      row<&Config::tls, &TlsConfig::revoked>(
          {"tls", "revoked", Type::kPath,
           "PEM file with revocation lists (CRLs), one of each authority in tls.ca: certificates in them are refused, "
           "and all are once a list has expired. Read again when it changes. Empty: none is looked at.",
           "", 0, kMaxText}),
      row<&Config::tls, &TlsConfig::plain_too>(
          {"tls", "plain_too", Type::kChoice,
           "yes: a server with a tcp+tls:// address may have addresses of other networks as well, for the time of a "
           "change. Clients use these when TLS does not work: an attacker who disturbs TLS makes them send in clear.",
           "no|yes"}),
  };
}

std::vector<Key> fs_rows() {
  return {
      row<&Config::fs, &FsConfig::id>({"fs", "id", Type::kHexId,
                                       "Random number of this file system; servers and clients of others are refused.",
                                       "", 1, UINT64_MAX, true}),
      row<&Config::fs, &FsConfig::name>(
          {"fs", "name", Type::kText, "Name for people, shown by df and mount --status.", "", 1, 64}),
      row<&Config::fs, &FsConfig::auth>(
          {"fs", "auth", Type::kChoice,
           "key: clients and servers prove that they hold the key files. none: whoever reaches a server is let in; "
           "only with servers that nobody reaches from another machine (127.0.0.1, [::1], localhost, shm). tls: "
           "clients "
           "show a certificate that tls.ca has signed, and may act for any user; only with tcp+tls:// and shm://.",
           "key|none|tls"}),
      row<&Config::fs, &FsConfig::client_key_file>({"fs", "client_key_file", Type::kPath,
                                                    "File (mode 0600, 64 hex digits) that lets clients in. Needed with "
                                                    "auth = \"key\". More such lines in it: keys "
                                                    "that servers still accept (docs/operating.md, New keys). A client "
                                                    "may name a user's key instead (spate key issue).",
                                                    "", 0, kMaxText}),
      row<&Config::fs, &FsConfig::server_key_file>(
          {"fs", "server_key_file", Type::kPath,
           "File (mode 0600, 64 hex digits) that only servers hold: capabilities are sealed with it. Needed with "
           "auth = \"key\". More lines: as in client_key_file.",
           "", 0, kMaxText}),
  };
}

std::vector<Key> plain_rows() {
  return {
      row<&Config::defaults, &DefaultsConfig::strip_bytes>({"defaults", "strip_bytes", Type::kSize,
                                                            "One target's contiguous piece of a file.", "",
                                                            kMinStripBytes, kMaxStripBytes}),
      row<&Config::defaults, &DefaultsConfig::strip_count>({"defaults", "strip_count", Type::kCount,
                                                            "Targets that a file is spread over; 0: all of them.", "",
                                                            0, kMaxSlots}),
      row<&Config::defaults, &DefaultsConfig::replicas>(
          {"defaults", "replicas", Type::kCount,
           "Copies of a file's data, each on another io server (docs/availability.md). `spate policy` sets it for a "
           "directory.",
           "", 1, kMaxReplicas}),
      row<&Config::meta, &MetaConfig::sync>({"meta", "sync", Type::kSync,
                                             "How long a name-space change may be lost when a machine crashes; "
                                             "\"commit\": not at all. An fsync of a file "
                                             "always covers its entry.",
                                             "", kMs, 60 * kSecond}),
      row<&Config::meta, &MetaConfig::session_lease>({"meta", "session_lease", Type::kDuration,
                                                      "A client silent for so long loses its session and its locks.",
                                                      "", kSecond, 3600 * kSecond}),
      row<&Config::meta, &MetaConfig::coordinator>(
          {"meta", "coordinator", Type::kTextList,
           "Addresses of the etcd cluster that says which of several meta servers leads (https://HOST:PORT, or "
           "http://). "
           "Needed with two or more servers of the role meta, which then hold the same name space "
           "(docs/availability.md).",
           "", 0, kMostCoordinatorUrls}),
      row<&Config::meta, &MetaConfig::coordinator_tls>(
          {"meta", "coordinator_tls", Type::kPath,
           "For https://: a folder with ca.pem, cert.pem and key.pem, by which etcd and the meta servers show each "
           "other who they are. Others cannot read key.pem (mode 0600 or 0640).",
           "", 0, kMaxText}),
      row<&Config::flow, &FlowConfig::read_path>(
          {"flow", "read_path", Type::kChoice,
           "The data path of reads that ask for none. auto: the one that suits. p2p: by p2p_memory where that can be "
           "had, else the next best. Another one is for measuring: what it cannot serve fails.",
           "auto|buffered|direct|p2p|cached"}),
      row<&Config::flow, &FlowConfig::write_path>(
          {"flow", "write_path", Type::kChoice, "The same for writes.", "auto|buffered|direct|p2p"}),
      row<&Config::flow, &FlowConfig::direct_from>({"flow", "direct_from", Type::kSize,
                                                    "Datafiles from this size on are read and written past the page "
                                                    "cache, as far as they are not in it; 0: half of "
                                                    "the machine's memory.",
                                                    "", 0, 1ULL << 50U}),
      row<&Config::flow, &FlowConfig::p2p_memory>(
          {"flow", "p2p_memory", Type::kPath,
           "Memory of a PCI device for the p2p path: /sys/bus/pci/devices/DEVICE/p2pmem/allocate. Servers that cannot "
           "map it do without, and say so. Empty: none.",
           "", 0, kMaxText}),
      row<&Config::flow, &FlowConfig::p2p_size>({"flow", "p2p_size", Type::kSize,
                                                 "How much of that memory each server takes.", "", 4 * kMiB,
                                                 64 * kKiB * kMiB}),
      row<&Config::flow, &FlowConfig::bypass>({"flow", "bypass", Type::kChoice,
                                               "What clients on a server's own machine that come by shm:// may do to "
                                               "datafiles by themselves, under a lease. write: "
                                               "also write them, if they run as the server's user.",
                                               "off|read|write"}),
      row<&Config::flow, &FlowConfig::recall_deadline>(
          {"flow", "recall_deadline", Type::kDuration,
           "A client that is still at work so long after its lease was recalled is fenced: the datafile is copied.", "",
           10 * kMs, 300 * kSecond}),
      row<&Config::flow, &FlowConfig::rebuild_rate>(
          {"flow", "rebuild_rate", Type::kSize,
           "How much each io server copies a second to servers that come back and lack data of mirrored files "
           "(docs/availability.md); 0: as much as it can.",
           "", 0, 1ULL << 50U}),
      row<&Config::client, &ClientConfig::deadline>(
          {"client", "deadline", Type::kDuration,
           "When a request to a server that does not answer fails, resends included.", "", 10 * kMs, 3600 * kSecond}),
      row<&Config::client, &ClientConfig::busy_poll>({"client", "busy_poll", Type::kDuration,
                                                      "How long a waiting client goes on asking the network before it "
                                                      "sleeps, as long as answers come within that: they are "
                                                      "up to twice as fast. 0: sleep at once.",
                                                      "", 0, 10 * kMs}),
      row<&Config::client, &ClientConfig::bypass>(
          {"client", "bypass", Type::kChoice,
           "What clients do to datafiles of servers on their own machine by themselves, where flow.bypass allows it.",
           "off|read|write"}),
      row<&Config::client, &ClientConfig::atime>({"client", "atime", Type::kChoice,
                                                  "When reading moves a file's atime. relatime: when it is not later "
                                                  "than the last change, or a day old. strictatime: "
                                                  "always. It is told with the close.",
                                                  "relatime|noatime|strictatime"}),
      row<&Config::client, &ClientConfig::attribute_cache>({"client", "attribute_cache", Type::kChoice,
                                                            "Who keeps attributes and names under leases of the meta "
                                                            "server, which recalls them before anything is changed. "
                                                            "on: mounts. all: programs, too, by the preload library "
                                                            "or libspate.",
                                                            "off|on|all"}),
      row<&Config::client, &ClientConfig::tag>({"client", "tag", Type::kText,
                                                "What a client works for, as `spate top` and the servers' logs name "
                                                "it. Empty: the number of its batch job, by "
                                                "SLURM_JOB_ID, PBS_JOBID, LSB_JOBID or FLUX_JOB_ID.",
                                                "", 0, kMaxTagBytes}),
      row<&Config::network, &NetworkConfig::eager_limit>(
          {"network", "eager_limit", Type::kSize,
           "Messages up to this leave at once; larger ones ask the receiver first.", "", 0, kMiB}),
      row<&Config::network, &NetworkConfig::copy_limit>(
          {"network", "copy_limit", Type::kSize,
           "RDMA: larger messages up to this are copied, unless their memory is registered already.", "", 0, kMiB}),
      row<&Config::network, &NetworkConfig::max_unexpected>({"network", "max_unexpected", Type::kSize,
                                                             "The largest request that a server takes.", "", 16 * kKiB,
                                                             16 * kMiB}),
      row<&Config::network, &NetworkConfig::buffered_per_peer>({"network", "buffered_per_peer", Type::kSize,
                                                                "What one peer can make the other side hold in memory.",
                                                                "", 64 * kKiB, kKiB * kMiB}),
      row<&Config::network, &NetworkConfig::connect_timeout>({"network", "connect_timeout", Type::kDuration,
                                                              "For one attempt to reach one address.", "", 10 * kMs,
                                                              300 * kSecond}),
      row<&Config::network, &NetworkConfig::idle_close>({"network", "idle_close", Type::kDuration,
                                                         "Who made a connection gives it up when nobody has needed it "
                                                         "for so long, and makes it anew when it is needed.",
                                                         "", kSecond, 86'400 * kSecond}),
      row<&Config::network, &NetworkConfig::server_busy_poll>(
          {"network", "server_busy_poll", Type::kDuration,
           "client.busy_poll, for servers: worth it where nothing else wants their processors. 0: sleep at once, which "
           "leaves these to "
           "whoever computes on the same machine.",
           "", 0, 10 * kMs}),
      row<&Config::network, &NetworkConfig::shm_users>(
          {"network", "shm_users", Type::kText,
           "Who may reach a server by shared memory, besides root: same (the server's own user), any, or user ids "
           "(\"1000,1001\").",
           "", 1, kMaxText}),
      row<&Config::network, &NetworkConfig::shm_server_users>(
          {"network", "shm_server_users", Type::kText,
           "Which users' servers a client (or server) connects to by shared memory, besides root's: same (its own "
           "user), any, or user ids (\"990\"). Others that have bound a server's name are passed by.",
           "", 1, kMaxText}),
      row<&Config::log, &LogConfig::level>(
          {"log", "level", Type::kText,
           "off, error, warn, info, debug or trace; with folders of the source: \"info,bmi=debug\".", "", 1, kMaxText}),
      row<&Config::log, &LogConfig::format>(
          {"log", "format", Type::kChoice, "Plain lines, or a JSON object a line.", "text|json"}),
      row<&Config::log, &LogConfig::file>(
          {"log", "file", Type::kPath, "Empty: standard error. Opened anew on SIGHUP.", "", 0, kMaxText}),
      row<&Config::log, &LogConfig::audit>(
          {"log", "audit", Type::kPath,
           "A server writes here, a JSON object a line, what it has refused and what operators have done. Empty: "
           "nowhere. Opened anew on SIGHUP.",
           "", 0, kMaxText}),
      row<&Config::log, &LogConfig::slow_request>(
          {"log", "slow_request", Type::kDuration,
           "A server logs each request that took this long: who sent it, where it waited, its trace. 0: none.", "", 0,
           3600 * kSecond}),
  };
}

std::vector<Key> server_rows() {
  return {
      server_row<&ServerConfig::id>(
          {"", "id", Type::kCount, "Number of the server, never given to another one.", "", 1, kMaxServerId, true}),
      server_row<&ServerConfig::urls>(
          {"", "urls", Type::kTextList,
           "Its addresses, the best first: tcp://host:port, tcp+tls://host:port, shm://name or shm:///path "
           "(same machine), ofi+PROVIDER://host:port.",
           "", 1, kMaxUrlsPerServer, true}),
      server_row<&ServerConfig::roles>({"", "roles", Type::kChoiceList,
                                        "meta: the name space. io: file data. block: block exports.", "meta|io|block",
                                        1, 3, true}),
      server_row<&ServerConfig::storage>({"", "storage", Type::kPathList,
                                          "Folders for file data, one for each device; each is a target. Append only: "
                                          "the place in the list is its name.",
                                          "", 0, kMaxTargetsPerServer}),
      server_row<&ServerConfig::keyval>(
          {"", "keyval", Type::kPath, "Folder for the name space of a meta server.", "", 0, kMaxText}),
      server_row<&ServerConfig::trove>({"", "trove", Type::kChoice,
                                        "How storage is driven. auto: io_uring where the kernel allows it, else a "
                                        "thread pool. mem: nothing is kept.",
                                        "auto|uring|pool|mem"}),
  };
}

std::vector<Key> block_rows() {
  return {
      row<&Config::block, &BlockConfig::addresses>(
          {"block", "addresses", Type::kTextList,
           "Where they listen by TCP; one that is not this machine's own needs TLS, or insecure.", "", 0, 16}),
      row<&Config::block, &BlockConfig::port>({"block", "port", Type::kCount, "The TCP port.", "", 1, 65535}),
      row<&Config::block, &BlockConfig::unix_path>(
          {"block", "unix", Type::kPath, "A Unix socket to listen at, too, for the server's own user; empty: none.", "",
           0, 107}),
      row<&Config::block, &BlockConfig::tls>({"block", "tls", Type::kPath,
                                              "Folder with server-cert.pem and server-key.pem: clients by TCP must use "
                                              "TLS. With ca-cert.pem they need a certificate.",
                                              "", 0, kMaxText}),
      row<&Config::block, &BlockConfig::tls_psk>(
          {"block", "tls_psk", Type::kPath,
           "File of keys for TLS, lines \"name:hex\", readable by the server's user only.", "", 0, kMaxText}),
      row<&Config::block, &BlockConfig::insecure>(
          {"block", "insecure", Type::kChoice, "yes: other machines may connect without TLS.", "no|yes"}),
      item_row<&Config::exports, &ExportConfig::name>(
          {"exports", "name", Type::kText, "What clients ask for: nbd://host/NAME.", "", 1, 255, true}),
      item_row<&Config::exports, &ExportConfig::source>(
          {"exports", "source", Type::kText,
           "An absolute path of a file or block device of the server's machine, or spate:/PATH.", "", 1, kMaxText,
           true}),
      item_row<&Config::exports, &ExportConfig::server>({"exports", "server", Type::kCount,
                                                         "The server that serves it; 0: each that has the role block.",
                                                         "", 0, kMaxServerId}),
      item_row<&Config::exports, &ExportConfig::read_only>(
          {"exports", "read_only", Type::kChoice, "yes: writes are refused.", "no|yes"}),
      item_row<&Config::exports, &ExportConfig::allow>(
          {"exports", "allow", Type::kTextList,
           "Who may use it: addresses, networks (10.0.0.0/8), \"unix\", and with TLS cert:NAME and psk:NAME. Empty: "
           "everybody who connects.",
           "", 0, 256}),
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
