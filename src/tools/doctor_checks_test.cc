// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor_checks.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ostream>

#include "base/expect.h"

namespace spate::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

Error refusal() { return Error::told(Errc::kNotFound, "refused"); }

/// A machine without problems. Each test changes what it is about.
struct FakeMachine final : Machine {
  std::map<std::string, std::string> files = {{"/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"}};
  std::map<std::string, Space> spaces = {{"/dev/shm", {1ULL << 34U, 1ULL << 34U}},
                                         {"/store", {1ULL << 40U, 1ULL << 39U}}};
  std::vector<std::string> devices;
  std::map<Limit, std::uint64_t> limits = {{Limit::kDescriptors, UINT64_MAX}, {Limit::kLockedMemory, UINT64_MAX}};
  std::string release = "6.1.0-18-amd64";
  bool root = false, fusermount = true, fuse = true, ring = true, clock = true;
  Port state = Port::kFree;

  Result<std::string> read(const std::string& file) const override {
    const auto found = files.find(file);
    if (found == files.end()) return refusal();
    return found->second;
  }
  Result<std::vector<std::string>> list(const std::string&) const override { return devices; }
  std::uint64_t limit(Limit which) const override { return limits.at(which); }
  std::string kernel() const override { return release; }
  bool is_root() const override { return root; }
  bool has_program(const std::string&) const override { return fusermount; }
  Result<void> open_fuse() const override { return fuse ? Result<void>() : refusal(); }
  Result<void> make_ring() const override { return ring ? Result<void>() : refusal(); }
  bool clock_is_kept() const override { return clock; }
  Result<Space> space(const std::string& folder) const override {
    const auto found = spaces.find(folder);
    if (found == spaces.end()) return refusal();
    return found->second;
  }
  Port port(const config::ServerConfig&, const std::string&) const override { return state; }
};

std::optional<DoctorSubject> server_at(const std::string& url) {
  config::ServerConfig server;
  server.id = ServerId(3);
  server.urls = {url};
  server.storage = {"/store"};
  return DoctorSubject{{server}};
}

/// A problem, and the expected report of it.
struct BrokenMachine {
  std::string name;
  std::function<void(FakeMachine&)> change;
  std::string url;
  std::string check;
  Verdict verdict = Verdict::kWarning;
  std::string what;
  std::string advice;
};

void PrintTo(const BrokenMachine& broken, std::ostream* out) { *out << broken.name; }

class DoctorFinds : public testing::TestWithParam<BrokenMachine> {};

TEST(Doctor, FindsNothingOnAHealthyMachine) {
  for (const Diagnosis& diagnosis : examine(FakeMachine(), server_at("tcp://127.0.0.1:7400"))) {
    EXPECT_EQ(diagnosis.verdict, Verdict::kOk) << diagnosis.check << ": " << diagnosis.what;
    EXPECT_EQ(diagnosis.advice, "") << diagnosis.check;
  }
}

TEST(Doctor, ChecksNoPortWithoutAFileSystem) {
  for (const Diagnosis& diagnosis : examine(FakeMachine(), std::nullopt))
    EXPECT_THAT(diagnosis.check, Not(HasSubstr("server")));
}

TEST_P(DoctorFinds, EachProblem) {
  const BrokenMachine& broken = GetParam();
  FakeMachine machine;
  broken.change(machine);
  std::size_t told = 0;
  for (const Diagnosis& diagnosis :
       examine(machine, server_at(broken.url.empty() ? "tcp://127.0.0.1:7400" : broken.url))) {
    if (diagnosis.verdict == Verdict::kOk) continue;
    ++told;
    EXPECT_EQ(diagnosis.check, broken.check) << diagnosis.what;
    EXPECT_EQ(diagnosis.verdict, broken.verdict);
    EXPECT_THAT(diagnosis.what, HasSubstr(broken.what));
    EXPECT_THAT(diagnosis.advice, HasSubstr(broken.advice));
  }
  EXPECT_EQ(told, 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Each, DoctorFinds,
    testing::Values(BrokenMachine{"OldKernel", [](auto& m) { m.release = "5.10.0-9"; }, "", "kernel", Verdict::kWarning,
                                  "5.10", "newer"},
                    BrokenMachine{"StrangeKernel", [](auto& m) { m.release = "x"; }, "", "kernel", Verdict::kWarning,
                                  "Linux x", "newer"},
                    BrokenMachine{"FewDescriptors", [](auto& m) { m.limits[Machine::Limit::kDescriptors] = 1024; }, "",
                                  "descriptors", Verdict::kWarning, "1024", "nofile"},
                    BrokenMachine{"LittleLockedMemoryForRdma",
                                  [](auto& m) { m.limits[Machine::Limit::kLockedMemory] = 8U << 20U; },
                                  "ofi+tcp://127.0.0.1:7400", "memlock", Verdict::kFailure, "8.00 MiB",
                                  "memlock unlimited"},
                    BrokenMachine{"RingSwitchedOff",
                                  [](auto& m) {
                                    m.ring = false;
                                    m.files["/proc/sys/kernel/io_uring_disabled"] = "2\n";
                                  },
                                  "", "io_uring", Verdict::kWarning, "threads", "sysctl kernel.io_uring_disabled=0"},
                    BrokenMachine{"RingForbidden", [](auto& m) { m.ring = false; }, "", "io_uring", Verdict::kWarning,
                                  "refused", "seccomp"},
                    BrokenMachine{"NoFuse", [](auto& m) { m.fuse = false; }, "", "fuse", Verdict::kWarning, "/dev/fuse",
                                  "modprobe"},
                    BrokenMachine{"NoFusermount", [](auto& m) { m.fusermount = false; }, "", "fuse", Verdict::kWarning,
                                  "only root", "fuse3"},
                    BrokenMachine{"ClockRunsFree", [](auto& m) { m.clock = false; }, "", "clock", Verdict::kWarning,
                                  "times", "chrony"},
                    BrokenMachine{"SmallSharedMemory", [](auto& m) { m.spaces["/dev/shm"] = {64U << 20U, 64U << 20U}; },
                                  "", "shared memory", Verdict::kWarning, "64.0 MiB", "shm-size"},
                    BrokenMachine{"SharedMemoryNeeded", [](auto& m) { m.spaces.erase("/dev/shm"); }, "shm://one",
                                  "shared memory", Verdict::kFailure, "no /dev/shm", "remount"},
                    BrokenMachine{"RdmaWithoutDevice", [](auto&) {}, "ofi+verbs://10.0.0.1:1", "rdma",
                                  Verdict::kFailure, "no RDMA", "driver"},
                    BrokenMachine{"RdmaUnused", [](auto& m) { m.devices = {"mlx5_0"}; }, "", "rdma", Verdict::kWarning,
                                  "mlx5_0", "ofi+verbs"},
                    BrokenMachine{"PortTaken", [](auto& m) { m.state = Machine::Port::kOther; }, "", "port of server 3",
                                  Verdict::kFailure, "another program", "another port"},
                    BrokenMachine{"PortRefused", [](auto& m) { m.state = Machine::Port::kRefused; }, "",
                                  "port of server 3", Verdict::kFailure, "cannot be listened at", "1024"},
                    BrokenMachine{"PortOfOutgoingConnections", [](auto&) {}, "tcp://127.0.0.1:40000",
                                  "port of server 3", Verdict::kWarning, "outgoing", "ip_local_reserved_ports=40000"},
                    BrokenMachine{"StoreGone", [](auto& m) { m.spaces.erase("/store"); }, "", "store of server 3",
                                  Verdict::kFailure, "/store", "mount its disk"},
                    BrokenMachine{"StoreScarce", [](auto& m) { m.spaces["/store"] = {1ULL << 40U, 1ULL << 35U}; }, "",
                                  "store of server 3", Verdict::kWarning, "32.0 GiB of 1.00 TiB", "spate du"},
                    BrokenMachine{"StoreFull", [](auto& m) { m.spaces["/store"] = {1ULL << 40U, 0}; }, "",
                                  "store of server 3", Verdict::kFailure, "0 B of", "new disk"}),
    [](const testing::TestParamInfo<BrokenMachine>& info) { return info.param.name; });

TEST(Doctor, RootNeedsNoMountHelperAndNoMemoryLockLimit) {
  FakeMachine machine;
  machine.root = true;
  machine.fusermount = false;
  machine.limits[Machine::Limit::kLockedMemory] = 0;
  for (const Diagnosis& diagnosis : examine(machine, server_at("ofi+tcp://127.0.0.1:7400")))
    EXPECT_EQ(diagnosis.verdict, Verdict::kOk) << diagnosis.check << ": " << diagnosis.what;
}

TEST(Doctor, ARunningServersPortMayLieInTheRangeOfOutgoingConnections) {
  FakeMachine machine;
  machine.state = Machine::Port::kServer;
  for (const Diagnosis& diagnosis : examine(machine, server_at("tcp://127.0.0.1:40000")))
    EXPECT_EQ(diagnosis.verdict, Verdict::kOk) << diagnosis.check << ": " << diagnosis.what;
}

Diagnosis of_voters(std::vector<VoterState> voters) {
  const FakeMachine machine;
  auto subject = server_at("tcp://a:7400");
  subject->voters = std::move(voters);
  return examine(machine, subject).back();
}

const VoterState kUp{"etcd-1", "https://a:1"};
const VoterState kDead{"etcd-2", "https://b:1", true, true, "it does not answer"};
const VoterState kNew{"", "https://c:2", false, false, "it has not started yet"};

TEST(DoctorChecks, MembersOfEtcdThatDoNotAnswerAreCounted) {
  EXPECT_EQ(of_voters({kUp, kUp, kUp}).verdict, Verdict::kOk);
  EXPECT_EQ(of_voters({kUp, kUp, kDead}).verdict, Verdict::kWarning);
  EXPECT_EQ(of_voters({kUp, kDead, kDead}).verdict, Verdict::kFailure);
  EXPECT_EQ(of_voters({kUp, kDead}).verdict, Verdict::kFailure);
  EXPECT_EQ(of_voters({kUp, kDead}).check, "coordinator");
  EXPECT_THAT(of_voters({kUp, kUp, kDead}).what, HasSubstr("one less would be too few"));
  EXPECT_THAT(of_voters({kUp, kUp, kUp, kUp, kDead}).what, Not(HasSubstr("too few")));
}

TEST(DoctorChecks, AMemberOfEtcdThatDoesNotAnswerIsNamed) {
  const Diagnosis found = of_voters({kUp, kUp, kDead});
  EXPECT_THAT(found.what, HasSubstr("2 of 3 members of etcd answer; etcd-2 (https://b:1): it does not answer"));
  EXPECT_THAT(found.advice, HasSubstr("`spate up` on the machine of etcd-2 (https://b:1)"));
  EXPECT_THAT(found.advice, HasSubstr("`spate coord remove etcd-2`"));
}

TEST(DoctorChecks, AMemberOfEtcdThatHasNotStartedDoesNotCount) {
  const Diagnosis found = of_voters({kUp, kUp, kUp, kNew});
  EXPECT_THAT(found.what, HasSubstr("3 of 3 members of etcd answer; https://c:2: it has not started yet"));
  EXPECT_THAT(found.advice, HasSubstr("`spate coord remove https://c:2`"));
}

/// A machine without certificates for etcd knows no names.
TEST(DoctorChecks, AMemberOfEtcdWithoutANameIsShownByItsAddress) {
  const Diagnosis found = of_voters({kUp, kUp, {"", "https://b:1", true, true, "nobody listens there"}});
  EXPECT_THAT(found.what, HasSubstr("; https://b:1: nobody listens there"));
  EXPECT_THAT(found.advice, HasSubstr("`spate up` on the machine of https://b:1"));
  EXPECT_THAT(found.advice, Not(HasSubstr("remove")));
}

}  // namespace
}  // namespace spate::tools
