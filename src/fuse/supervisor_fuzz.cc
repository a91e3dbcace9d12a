// SPDX-License-Identifier: Apache-2.0
// Fuzzer of a mount's supervisor: servers and callers send and do what the input says, on a system that fails when the
// input says so. There must always be at most one server, of a program that was checked. Nothing may be mounted or
// unmounted twice, a signal must end everything, and no descriptor may leak.
//
// Input: steps of a byte (below), with their operands.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <filesystem>
#include <set>

#include "base/check.h"
#include "base/codec.h"
#include "base/local_packet.h"
#include "fuse/supervisor.h"
#include "log/log.h"

namespace spate::fuse {
namespace {

constexpr std::size_t kMaxSteps = 128;
constexpr std::size_t kCallers = 3;
constexpr int kMostLooks = 8;  // after each step, until there is nothing to do
constexpr int kMostRounds = 16;

std::size_t open_descriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

/// A system in which the input decides when a child ends and when a call fails.
class FakeHost final : public SupervisorHost {
 public:
  FakeHost() : signals_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { SPATE_CHECK(signals_); }

  Result<void> prepare() override { return {}; }
  int signals() const override { return signals_.get(); }
  int next_signal() override {
    if (pending_.empty()) {
      std::uint64_t count = 0;
      std::ignore = ::read(signals_.get(), &count, sizeof count);
      return 0;
    }
    const int signal = pending_.front();
    pending_.pop_front();
    return signal;
  }
  std::optional<Ended> next_ended() override {
    if (ended_.empty()) return std::nullopt;
    const Ended ended = ended_.front();
    ended_.pop_front();
    return ended;
  }

  Result<pid_t> start_server(const std::string& program, UniqueFd control, bool drains) override {
    SPATE_CHECK(server < 0);  // one at a time
    SPATE_CHECK(!drained_);   // nothing is served after that
    drained_ = drains;
    SPATE_CHECK(program == "/proc/self/exe" || looked_at_.contains(program));
    if (std::exchange(fails, false)) return Errc::kTryAgain;
    server = ++last_;
    server_end = std::move(control);
    return server;
  }
  void kill_server(pid_t child) override {
    if (child == server) end_server(SIGKILL);  // otherwise it has ended already, which was not reported yet
  }
  bool gathers() const override { return true; }
  std::vector<std::string> left_gathered() override {
    SPATE_CHECK(server < 0);
    return {};
  }
  Result<void> check_program(const std::string& program) override {
    SPATE_CHECK(program.starts_with('/'));
    if (std::exchange(fails, false)) return Errc::kVersionMismatch;
    looked_at_.insert(program);
    return {};
  }

  Result<UniqueFd> mount(const std::string&) override {
    SPATE_CHECK(!mounted_);
    if (std::exchange(fails, false)) return Errc::kNotPermitted;
    mounted_ = true;
    return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  }
  bool is_over(int) override { return over; }
  pid_t start_unmount(UniqueFd) override {
    SPATE_CHECK(mounted_ && !std::exchange(unmounted_, true));
    if (std::exchange(fails, false)) return -1;
    return unmounter = ++last_;
  }
  std::optional<UniqueFd> listen() override {
    if (std::exchange(fails, false)) return std::nullopt;
    UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    SPATE_CHECK(::bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(sa_family_t)) == 0);
    SPATE_CHECK(::listen(made.get(), 4) == 0);
    address_size_ = sizeof address_;
    SPATE_CHECK(::getsockname(made.get(), reinterpret_cast<sockaddr*>(&address_), &address_size_) == 0);
    return made;
  }
  void stop_listening() override { SPATE_CHECK(address_size_ > 0); }

  void raise(int signal) {
    pending_.push_back(signal);
    const std::uint64_t one = 1;
    SPATE_CHECK(::write(signals_.get(), &one, sizeof one) == sizeof one);
  }
  /// `status`: as waitpid(2) returns it.
  void end_server(int status) {
    if (server < 0) return;
    server_end.reset();
    ended_.push_back({std::exchange(server, -1), status});
    raise(SIGCHLD);
  }
  void end_unmounter() {
    if (unmounter < 0) return;
    ended_.push_back({std::exchange(unmounter, -1), 0});
    raise(SIGCHLD);
  }
  /// Connects as a caller. Empty: nobody listens, or too many wait.
  UniqueFd connect() const {
    if (address_size_ == 0) return {};
    UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const bool done = ::connect(made.get(), reinterpret_cast<const sockaddr*>(&address_), address_size_) == 0;
    return done ? std::move(made) : UniqueFd();
  }

  pid_t server = -1;
  UniqueFd server_end;  // the server's end of the control socket
  pid_t unmounter = -1;
  bool over = false;
  bool fails = false;  // the next call fails

 private:
  const UniqueFd signals_;
  std::deque<int> pending_;
  std::deque<Ended> ended_;
  std::set<std::string> looked_at_;
  pid_t last_ = 100;
  bool mounted_ = false;
  bool unmounted_ = false;
  bool drained_ = false;
  sockaddr_un address_{};
  socklen_t address_size_ = 0;
};

class Run {
 public:
  explicit Run(ByteView script)
      : in_(script), supervisor_(MountOptions(), {"-o", "ro"}, [this] { SPATE_CHECK(++ready_ == 1); }, host_, clock_) {}

  void play() {
    if (!supervisor_.begin()) return;
    for (std::size_t i = 0; i < kMaxSteps && !supervisor_.ended() && in_.ok() && in_.remaining() > 0; ++i) {
      step();
      look();
    }
    host_.fails = false;
    host_.raise(SIGTERM);
    for (int round = 0; !supervisor_.ended(); ++round) {
      SPATE_CHECK(round < kMostRounds);
      look();
      host_.end_unmounter();
      clock_.advance(std::chrono::seconds(13));  // longer than a server may take to end by itself
    }
  }

 private:
  enum Step : std::uint8_t {
    kServerSays,
    kServerRaw,
    kServerEnds,
    kServerCloses,
    kCall,
    kCallerSays,
    kCallerRaw,
    kCallerLeaves,
    kSignal,
    kUnmounterEnds,
    kOver,
    kTime,
    kFail,
    kSteps
  };

  void look() {
    for (int i = 0; i < kMostLooks && !supervisor_.ended(); ++i) supervisor_.look(0);
  }
  void step() {
    const std::uint8_t what = in_.u8();
    UniqueFd& caller = callers_[what / kSteps % kCallers];
    switch (what % kSteps) {
      case kServerSays: say(host_.server_end, true); break;
      case kServerRaw: say(host_.server_end, false); break;
      case kServerEnds: host_.end_server(status()); break;
      case kServerCloses: host_.server_end.reset(); break;
      case kCall: caller = host_.connect(); break;
      case kCallerSays: say(caller, true); break;
      case kCallerRaw: say(caller, false); break;
      case kCallerLeaves: caller.reset(); break;
      case kSignal: host_.raise(std::array{SIGINT, SIGTERM, SIGHUP, SIGCHLD}[in_.u8() % 4]); break;
      case kUnmounterEnds: host_.end_unmounter(); break;
      case kOver: host_.over = true; break;
      case kTime: clock_.advance(std::chrono::seconds(in_.u8())); break;
      default: host_.fails = true;
    }
  }
  int status() {
    constexpr int kExit = 256;
    return std::array{0, kHandedOver * kExit, kExit, SIGKILL, SIGSEGV}[in_.u8() % 5];
  }
  void say(const UniqueFd& socket, bool a_word) {
    constexpr std::string_view kWords = "CDSUTOQAKF";
    const std::uint8_t first = in_.u8();
    std::string bytes(1, a_word ? kWords[first % kWords.size()] : static_cast<char>(first));
    const std::size_t size = std::min<std::size_t>(in_.u8(), in_.remaining());
    for (std::size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(in_.u8()));
    if (!socket) return;
    const std::array<int, 1> descriptor{socket.get()};
    const bool with = !a_word && first % 4 == 0;
    std::ignore =
        send_local_packet(socket.get(), as_bytes(bytes), with ? std::span(descriptor) : std::span<const int>());
  }

  Decoder in_;
  ManualClock clock_;
  FakeHost host_;
  int ready_ = 0;
  Supervisor supervisor_;
  std::array<UniqueFd, kCallers> callers_;
};

}  // namespace
}  // namespace spate::fuse

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  static const bool quiet = log::set_levels("off").has_value();
  (void)quiet;
  const std::size_t before = fuse::open_descriptors();
  fuse::Run(ByteView(reinterpret_cast<const std::byte*>(data), size)).play();
  SPATE_CHECK(fuse::open_descriptors() == before);
  return 0;
}
