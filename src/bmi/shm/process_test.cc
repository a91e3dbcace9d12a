// SPDX-License-Identifier: Apache-2.0
// Two processes: sudden death, descriptors, other users.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/expect.h"
#include "bmi/shm/endpoint.h"
#include "bmi/shm/module_fixture.h"

namespace spate::bmi::shm {
namespace {

/// Runs `body` in a child process, which exits with the value that it returns.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(body());
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) kill();
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    (void)wait();
  }
  int wait() {
    int status = -1;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// How many mappings of shared memory this process has.
std::size_t shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:spate") != std::string::npos ? 1 : 0;
  return count;
}

class Processes : public testing::Test {
 protected:
  /// Runs a client in a child process. `talk` may use `step` to drive it.
  static int client(const std::string& url, const std::function<int(Instance&, Address)>& talk) {
    const SystemClock clock;
    Instance instance(clock, {});
    const Address server = instance.lookup(url);
    return talk(instance, server);
  }
  static testing::AssertionResult drive(Instance& instance, const std::function<bool()>& until) {
    for (int tries = 0; tries < 20'000; ++tries) {
      instance.step();
      if (until()) return testing::AssertionSuccess();
      instance.nap(1);
    }
    return testing::AssertionFailure() << "it never does; " << instance.arrived.size() << " requests arrived";
  }
  void start(ShmOptions options = {}) {
    server_ = std::make_unique<Instance>(clock_, std::move(options));
    url_ = server_->listen();
  }
  testing::AssertionResult drive(const std::function<bool()>& until) { return drive(*server_, until); }
  Address first_request() {
    EXPECT_TRUE(drive([&] { return !server_->arrived.empty(); }));
    if (server_->arrived.empty()) return {};
    const Address peer = server_->arrived.front().peer;
    server_->arrived.pop_front();
    return peer;
  }

  SystemClock clock_;
  std::unique_ptr<Instance> server_;
  std::string url_;
};

TEST_F(Processes, APeerThatIsKilledIsNoticedAndLeavesNothing) {
  start();
  Bytes room(20'000'000);
  const std::size_t descriptors = open_descriptors();
  const std::size_t mappings = shared_mappings();
  for (int i = 0; i < 5; ++i) {
    Child child([&] {
      return client(url_, [](Instance& self, Address server) {
        const MutableByteView memory = self->mem_alloc(20'000'000);
        const Bytes plain(20'000'000);
        self.request(server, 1);
        self.send(server, 2, memory, MessageClass::kBulk);
        self.send(server, 3, plain, MessageClass::kBulk);
        return drive(self, [] { return false; }) ? 0 : 1;
      });
    });
    const Address peer = first_request();
    const OpId never = server_->receive(peer, 77, room);
    const OpId large = server_->receive(peer, i % 2 == 0 ? 2 : 3, room, MessageClass::kBulk);
    for (int turn = 0; turn < 20; ++turn) server_->step();  // stops somewhere in the middle
    child.kill();
    EXPECT_TRUE(drive([&] { return server_->done(never) && server_->done(large); }));
    EXPECT_EQ(server_->completion(never).status, Errc::kConnectionLost);
    EXPECT_FALSE((*server_)->peer_info(peer).connected) << "the peer was killed";
  }
  server_->step();
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(shared_mappings(), mappings);
}

// The server sees the end of the socket together with the bell, before it has read anything. A send that has completed
// lies in the shared lane. A send that waits for room there is lost with its process, and the client may still use its
// narrow lane.
TEST_F(Processes, MessagesThatAPeerWroteBeforeItsDeathArrive) {
  start();
  std::array<int, 2> go{};
  std::array<int, 2> told{};
  ASSERT_EQ(::pipe2(go.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(told.data(), O_CLOEXEC), 0);
  const UniqueFd to_wait(go[0]);
  const UniqueFd to_go(go[1]);
  const UniqueFd to_hear(told[0]);
  const UniqueFd to_tell(told[1]);
  Child child([&] {
    return client(url_, [&](Instance& self, Address server) {
      self.request(server, 1);
      if (!drive(self, [&] { return self->peer_info(server).connected; })) return 1;
      char byte = 0;
      if (::read(to_wait.get(), &byte, 1) != 1) return 1;
      std::uint32_t written = 0;
      for (std::uint64_t i = 2; i < 102; ++i) written += self.done(self.request(server, i, Bytes(i))) ? 1 : 0;
      if (::write(to_tell.get(), &written, sizeof written) != sizeof written) return 1;
      ::kill(::getpid(), SIGKILL);
      return 1;
    });
  });
  ASSERT_TRUE(drive([&] { return !server_->arrived.empty(); }));
  while (!(*server_)->prepare_to_wait(server_->context())) server_->step();
  ASSERT_EQ(::write(to_go.get(), "g", 1), 1);
  EXPECT_EQ(child.wait(), -SIGKILL);
  std::uint32_t written = 0;
  ASSERT_EQ(::read(to_hear.get(), &written, sizeof written), static_cast<ssize_t>(sizeof written));
  EXPECT_GE(written, 30U);  // a narrow lane has 32 slots
  EXPECT_TRUE(drive([&] { return server_->arrived.size() == 1 + written; })) << written << " were written";
}

TEST_F(Processes, AServerThatIsKilledAndComesBack) {
  std::string folder = "/tmp/spate-shm-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string url = "shm://" + folder + "/s";
  const auto serve = [&] {
    const SystemClock clock;
    Instance instance(clock, {});
    if (instance.listen(url) != url) return 1;
    return drive(instance, [] { return false; }) ? 0 : 1;
  };
  Instance self(clock_, {});
  const Address server = self.lookup(url);
  for (std::uint32_t life = 1; life <= 3; ++life) {
    Child child(serve);
    Errc last = Errc::kUnreachable;
    while (last == Errc::kUnreachable) {  // until the child listens
      const OpId op = self.request(server, life);
      ASSERT_TRUE(drive(self, [&] { return self.done(op); }));
      last = self.completion(op).status;
    }
    EXPECT_EQ(last, Errc::kOk);
    EXPECT_EQ(self->peer_info(server).connection, life);
    Bytes room(10);
    const OpId waiting = self.receive(server, 5, room);
    child.kill();
    EXPECT_TRUE(drive(self, [&] { return self.done(waiting); }));
    EXPECT_EQ(self.completion(waiting).status, Errc::kConnectionLost);
  }
  std::filesystem::remove_all(folder);
}

TEST_F(Processes, AClientCanReadTheDescriptorThatTheServerSends) {
  start();
  const UniqueFd file(::memfd_create("datafile", MFD_CLOEXEC));
  const Bytes data(1'000'000, std::byte{8});
  ASSERT_EQ(::pwrite(file.get(), data.data(), data.size(), 0), 1'000'000);
  const UniqueFd read_only = read_only_copy(file.get());
  Child child([&] {
    return client(url_, [](Instance& self, Address server) {
      Bytes room(1);
      const OpId in = self.receive(server, 5, room);
      self.request(server, 5);
      if (!drive(self, [&] { return self.done(in); })) return 1;
      const auto passed = self->take_descriptor(server, Tag(5));
      if (!passed) return 2;
      Bytes bytes(1'000'001);
      if (::pread(passed->get(), bytes.data(), bytes.size(), 0) != 1'000'000 || bytes[999'999] != std::byte{8})
        return 3;
      return ::pwrite(passed->get(), "x", 1, 0) == 1 ? 4 : 0;
    });
  });
  const Address peer = first_request();
  ASSERT_OK((*server_)->pass_descriptor(peer, Tag(5), read_only.get()));
  server_->send(peer, 5, Bytes(1));
  EXPECT_EQ(child.wait(), 0);
}

/// Runs a client as another user. 0: it was served; 1: it was refused with a reason that names its uid.
int as_other_user(const std::string& url, bool with_memory) {
  if (::setgid(12345) != 0 || ::setuid(12345) != 0) return 9;
  const SystemClock clock;
  Instance self(clock, {});
  const Address server = self.lookup(url);
  const OpId op = self.request(server, 1);
  for (int i = 0; i < 20'000 && !self.done(op); ++i) {
    self.step();
    self.nap(1);
  }
  if (!self.done(op)) return 8;
  if (self.completion(op).status != Errc::kOk) {
    const PeerInfo info = self->peer_info(server);
    const bool clear = info.failed.size() == 1 && info.failed[0].reason.find("uid 12345") != std::string::npos;
    return self.completion(op).status == Errc::kUnreachable && clear ? 1 : 7;
  }
  const MutableByteView memory = self->mem_alloc(1'000'000);
  const Bytes plain(1'000'000, std::byte{4});
  if (with_memory) std::ranges::fill(memory, std::byte{4});
  Bytes room(1'000'000);
  const OpId back = self.receive(server, 2, room, MessageClass::kBulk);
  self.send(server, 2, with_memory ? ByteView(memory) : ByteView(plain), MessageClass::kBulk);
  for (int i = 0; i < 20'000 && !self.done(back); ++i) {
    self.step();
    self.nap(1);
  }
  return self.done(back) && room == plain ? 0 : 6;
}

class OtherUsers : public Processes {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  }
  /// Answers what the child sends, and returns the child's exit code.
  int serve(Child& child, ShmCounters& counters) {
    if (drive([&] { return !server_->arrived.empty() || server_->counters().refused > 0; }) &&
        !server_->arrived.empty()) {
      const Address peer = server_->arrived.front().peer;
      EXPECT_EQ((*server_)->peer_info(peer).uid, 12345U);
      const MutableByteView memory = (*server_)->mem_alloc(1'000'000);
      const OpId in = server_->receive(peer, 2, memory, MessageClass::kBulk);
      EXPECT_TRUE(drive([&] { return server_->done(in); }));
      counters = server_->counters();
      const OpId out = server_->send(peer, 2, memory, MessageClass::kBulk);
      EXPECT_TRUE(drive([&] { return server_->done(out); }));
    }
    return child.wait();
  }
};

TEST_F(OtherUsers, AreRefusedUnlessThePolicyLetsThemIn) {
  start();
  Child child([&] { return as_other_user(url_, false); });
  ShmCounters counters;
  EXPECT_EQ(serve(child, counters), 1);
}

TEST_F(OtherUsers, UsersInThePolicyAreServed) {
  for (const bool with_memory : {false, true}) {
    ShmOptions options;
    options.policy = parse_policy(with_memory ? "5,12345" : "any").value();
    start(std::move(options));
    Child child([&] { return as_other_user(url_, with_memory); });
    ShmCounters counters;
    EXPECT_EQ(serve(child, counters), 0);
    // Root may read its client's memory, so one copy suffices. Root lets nobody else read its own memory: the answer
    // went through the lane, whatever memory it lay in.
    EXPECT_EQ(counters.located_bytes, with_memory ? 1'000'000U : 0U);
  }
}

// Nobody owns a name. Another user may have bound a server's name while the server was away. Nothing is ever sent to
// that user's process.
TEST_F(OtherUsers, AListenerOfAnotherUserUnderAServersNameIsSkipped) {
  const std::string url = "shm://squatted-" + std::to_string(::getpid());
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  Child squatter([&] {
    if (::setuid(12345) != 0) return 3;
    Result<Endpoint> endpoint = parse_url(url);
    Result<UniqueFd> listener = listen_on(*endpoint, true);
    if (!listener || ::write(ready[1], "x", 1) != 1) return 4;
    pollfd wait{listener->get(), POLLIN, 0};
    if (::poll(&wait, 1, 10'000) != 1) return 5;
    const UniqueFd taken(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::array<std::byte, 256> bytes{};
    return ::recv(taken.get(), bytes.data(), bytes.size(), 0) > 0 ? 1 : 0;  // 0: the other side has sent nothing
  });
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  start();
  const std::vector<std::string> urls{url};
  const Address peer = *(*server_)->lookup(urls);
  const OpId request = server_->request(peer, 1, Bytes(8));
  EXPECT_TRUE(drive([&] { return server_->done(request); }));
  EXPECT_EQ((*server_)->peer_info(peer).failed.size(), 1U);
  EXPECT_NE((*server_)->peer_info(peer).failed.at(0).reason.find("held by uid 12345"), std::string::npos);
  EXPECT_EQ(squatter.wait(), 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace spate::bmi::shm
