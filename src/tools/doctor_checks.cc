// SPDX-License-Identifier: Apache-2.0
// The checks of `spate doctor`.
#include "tools/doctor_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "tools/text.h"

namespace spate::tools {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20U;
constexpr std::uint64_t kGiB = 1ULL << 30U;
/// A server keeps a descriptor for each connection, and one for each datafile in use.
constexpr std::uint64_t kDescriptorsWanted = 65536;
/// The buffers that one server registers with a network card.
constexpr std::uint64_t kLockedWanted = kGiB;
/// The rings in the shared memory of a server and its clients.
constexpr std::uint64_t kSharedWanted = 256 * kMiB;
constexpr std::uint64_t kSpaceWanted = kGiB;

using Subject = std::optional<DoctorSubject>;

Diagnosis ok(std::string check, std::string what) { return {std::move(check), Verdict::kOk, std::move(what), ""}; }

bool uses_network(const Subject& subject, std::string_view scheme) {
  return subject && std::ranges::any_of(subject->servers, [&](const config::ServerConfig& server) {
           return std::ranges::any_of(server.urls, [&](const std::string& url) { return url.starts_with(scheme); });
         });
}

/// "6.1.0-18" -> {6, 1}
std::pair<int, int> version_of(const std::string& kernel) {
  std::pair<int, int> version{0, 0};
  const char* const end = kernel.data() + kernel.size();
  const auto major = std::from_chars(kernel.data(), end, version.first);
  if (major.ec == std::errc() && major.ptr != end && *major.ptr == '.')
    std::from_chars(major.ptr + 1, end, version.second);
  return version;
}

Diagnosis check_kernel(const Machine& machine) {
  const std::string kernel = machine.kernel();
  if (version_of(kernel) >= std::pair(5, 19)) return ok("kernel", "Linux " + kernel);
  return {"kernel", Verdict::kWarning, "Linux " + kernel + " is older than 5.19",
          "io_uring lacks what servers use from 5.19 on, and they take threads instead; use a newer kernel"};
}

Diagnosis check_descriptors(const Machine& machine) {
  const std::uint64_t limit = machine.limit(Machine::Limit::kDescriptors);
  if (limit >= kDescriptorsWanted) return ok("descriptors", "a program may open enough files");
  return {"descriptors", Verdict::kWarning,
          fmt::format("a program may open {} files, a busy server needs {}", limit, kDescriptorsWanted),
          "raise the hard limit `nofile` in /etc/security/limits.conf, or start servers by systemd (spated@.service)"};
}

Diagnosis check_locked_memory(const Machine& machine, const Subject& subject) {
  const std::uint64_t limit = machine.limit(Machine::Limit::kLockedMemory);
  if (limit >= kLockedWanted || machine.is_root())
    return ok("memlock", "enough memory may be registered with a network card");
  const bool needed = uses_network(subject, "ofi");
  if (!needed) return ok("memlock", human_size(limit) + " may be locked; only RDMA needs more");
  return {"memlock", Verdict::kFailure,
          human_size(limit) + " may be locked, an address ofi... needs " + human_size(kLockedWanted),
          "set `memlock unlimited` in /etc/security/limits.conf and log in again (LimitMEMLOCK=infinity in a unit)"};
}

Diagnosis check_ring(const Machine& machine) {
  const auto made = machine.make_ring();
  if (made) return ok("io_uring", "the kernel lets programs use it");
  const auto setting = machine.read("/proc/sys/kernel/io_uring_disabled");
  const bool switched_off = setting && !setting->starts_with('0');
  return {"io_uring", Verdict::kWarning,
          "it is refused: " + made.error().message() + "; servers use threads, which is slower",
          switched_off ? "sysctl kernel.io_uring_disabled=0"
                       : "a container forbids it, or the kernel lacks it: allow io_uring_setup in its seccomp profile"};
}

Diagnosis check_fuse(const Machine& machine) {
  const auto opened = machine.open_fuse();
  if (!opened)
    return {"fuse", Verdict::kWarning,
            "/dev/fuse cannot be opened: " + opened.error().message() + "; `spate mount` will fail",
            "modprobe fuse; in a container pass --device /dev/fuse. `spate run` needs no mount"};
  if (!machine.is_root() && !machine.has_program("fusermount3"))
    return {"fuse", Verdict::kWarning, "there is no fusermount3, without which only root can mount",
            "install it (Debian: fuse3)"};
  return ok("fuse", "mounts can be made");
}

Diagnosis check_clock(const Machine& machine) {
  if (machine.clock_is_kept()) return ok("clock", "it is synchronised");
  return {"clock", Verdict::kWarning,
          "nothing synchronises this machine's clock: times of files will differ from other machines'",
          "run chrony, ntpd or systemd-timesyncd"};
}

Diagnosis check_shared_memory(const Machine& machine, const Subject& subject) {
  const auto space = machine.space("/dev/shm");
  if (space && space->available >= kSharedWanted)
    return ok("shared memory", human_size(space->available) + " free in /dev/shm");
  const std::string what =
      space ? "only " + human_size(space->available) + " free in /dev/shm" : "there is no /dev/shm";
  return {"shared memory", uses_network(subject, "shm:") ? Verdict::kFailure : Verdict::kWarning,
          what + "; addresses shm://... need " + human_size(kSharedWanted),
          "mount -o remount,size=1G /dev/shm; in a container pass --shm-size"};
}

Diagnosis check_rdma(const Machine& machine, const Subject& subject) {
  const auto devices = machine.list("/sys/class/infiniband");
  const bool there = devices && !devices->empty();
  if (uses_network(subject, "ofi+verbs") && !there)
    return {"rdma", Verdict::kFailure, "spate.toml has an address ofi+verbs, and this machine has no RDMA device",
            "load the driver of the network card (`rdma link` shows devices), or take the address out"};
  if (!there) return ok("rdma", "no device; TCP and shared memory are used");
  if (subject && !uses_network(subject, "ofi"))
    return {"rdma", Verdict::kWarning,
            "this machine has " + devices->front() + ", and no address of its servers uses it",
            "add an address such as ofi+verbs://HOST:PORT before the others (docs/operating.md)"};
  return ok("rdma", "device " + devices->front());
}

/// The port of "tcp://host:port"; 0: none.
unsigned port_of(const std::string& url) {
  unsigned port = 0;
  const std::size_t colon = url.rfind(':');
  if (colon != std::string::npos) std::from_chars(url.data() + colon + 1, url.data() + url.size(), port);
  return port;
}

/// The range from which the kernel chooses ports of outgoing connections; {0, 0} if it does not report that.
std::pair<unsigned, unsigned> outgoing_ports(const Machine& machine) {
  std::pair<unsigned, unsigned> range{0, 0};
  std::istringstream(machine.read("/proc/sys/net/ipv4/ip_local_port_range").value_or("")) >> range.first >>
      range.second;
  return range;
}

Diagnosis check_port(const Machine& machine, const config::ServerConfig& server, const std::string& url) {
  const std::string check = "port of server " + std::to_string(server.id.value);
  const std::string here = url + " ";
  const Machine::Port state = machine.port(server, url);
  if (state == Machine::Port::kServer) return ok(check, here + "the server listens there");
  if (state == Machine::Port::kOther)
    return {check, Verdict::kFailure, here + "another program listens there",
            "end it, or give the server another port in spate.toml"};
  if (state == Machine::Port::kRefused)
    return {check, Verdict::kFailure, here + "cannot be listened at",
            "take an address of this machine, and a port of 1024 or more"};
  const auto [first, last] = outgoing_ports(machine);
  if (const unsigned port = port_of(url); port >= first && port <= last && last != 0)
    return {check, Verdict::kWarning,
            here + fmt::format("is among the ports of outgoing connections ({} to {}): one of them may take it before "
                               "the server starts",
                               first, last),
            fmt::format("sysctl net.ipv4.ip_local_reserved_ports={}, or another port in spate.toml", port)};
  return ok(check, here + "is free");
}

Diagnosis check_store(const Machine& machine, const config::ServerConfig& server, const std::string& folder) {
  const std::string check = "store of server " + std::to_string(server.id.value);
  const auto space = machine.space(folder);
  if (!space)
    return {check, Verdict::kFailure, folder + ": " + space.error().message(),
            fmt::format("mount its disk; `spate-setup --format --server {}` makes the store of a new one",
                        server.id.value)};
  const bool scarce = space->available < kSpaceWanted || space->available < space->total / 20;
  if (!scarce) return ok(check, folder + " has " + human_size(space->available) + " free");
  const bool full = space->available < kSpaceWanted / 16;
  return {check, full ? Verdict::kFailure : Verdict::kWarning,
          fmt::format("{} has {} of {} free", folder, human_size(space->available), human_size(space->total)),
          "remove data (`spate du` says what is large), or add a server with a new disk"};
}

void check_server(const Machine& machine, const config::ServerConfig& server, std::vector<Diagnosis>& out) {
  for (const std::string& url : server.urls) {
    if (config::is_tcp_url(url)) out.push_back(check_port(machine, server, url));
  }
  for (const std::string& folder : server.storage) out.push_back(check_store(machine, server, folder));
  if (!server.keyval.empty()) out.push_back(check_store(machine, server, server.keyval));
}

/// Checks the members of etcd: without a majority, no server can replace a dead meta server.
Diagnosis check_coordinator(const std::vector<VoterState>& voters) {
  std::size_t votes = 0;
  std::size_t up = 0;
  std::string problems;
  for (const VoterState& voter : voters) {
    votes += voter.votes ? 1 : 0;
    up += voter.votes && voter.problem.empty() ? 1 : 0;
    if (!voter.problem.empty()) problems += fmt::format("; {}: {}", shown_voter(voter), voter.problem);
  }
  const std::string what = fmt::format("{} of {} members of etcd answer", up, votes) + problems;
  if (problems.empty()) return ok("coordinator", what);
  const std::string advice = advice_for(voters);
  if (up * 2 <= votes)
    return {"coordinator", Verdict::kFailure, what + ": no meta server takes the place of one that ends", advice};
  const bool at_the_edge = (up - 1) * 2 <= votes;
  return {"coordinator", Verdict::kWarning, what + (at_the_edge ? ", and one less would be too few" : ""), advice};
}

}  // namespace

std::vector<Diagnosis> examine(const Machine& machine, const std::optional<DoctorSubject>& subject) {
  std::vector<Diagnosis> all = {check_kernel(machine),
                                check_descriptors(machine),
                                check_locked_memory(machine, subject),
                                check_ring(machine),
                                check_fuse(machine),
                                check_clock(machine),
                                check_shared_memory(machine, subject),
                                check_rdma(machine, subject)};
  if (!subject) return all;
  for (const config::ServerConfig& server : subject->servers) check_server(machine, server, all);
  if (!subject->voters.empty()) all.push_back(check_coordinator(subject->voters));
  return all;
}

}  // namespace spate::tools
