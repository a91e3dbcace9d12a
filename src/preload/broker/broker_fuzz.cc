// SPDX-License-Identifier: Apache-2.0
// Fuzzer of a broker: programs connect, send the input with any descriptors, leave and come back. There are no servers,
// so every request to them fails. Afterwards the broker must answer a correct program, and must not have leaked a
// descriptor.
//
// Input: steps of a byte (below), with their operands.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/check.h"
#include "base/codec.h"
#include "log/log.h"
#include "preload/broker/broker.h"

namespace spate::preload::fuzz {
namespace {

constexpr std::size_t kPrograms = 4;
constexpr std::size_t kMaxSteps = 64;
constexpr std::size_t kMemoryBytes = 8192;
constexpr int kTimeoutMs = 20'000;
constexpr std::string_view kConfig = R"([fs]
id = "5eed0001"
auth = "none"
[[servers]]
id = 1
urls = ["tcp://127.0.0.1:1"]
roles = ["meta"]
keyval = "meta1"
[[servers]]
id = 2
urls = ["tcp://127.0.0.1:2"]
roles = ["io"]
storage = ["data"]
)";

UniqueFd local_socket(int flags) { return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0)); }

/// Waits for an answer. libFuzzer's timer interrupts poll now and then, so the wait consists of many short ones.
bool answers(int fd) {
  constexpr int kStepMs = 100;
  pollfd some{fd, POLLIN, 0};
  for (int waited = 0; waited < kTimeoutMs; waited += kStepMs) {
    if (::poll(&some, 1, kStepMs) == 1) return true;
  }
  return false;
}

std::size_t open_descriptors() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

/// A broker that is started again after it has ended because it had nothing to do.
class Bed {
 public:
  Bed() : process_(open_client()), listening_(local_socket(SOCK_NONBLOCK)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    SPATE_CHECK(::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(sa_family_t)) == 0);
    SPATE_CHECK(::listen(listening_.get(), 64) == 0);
    size_ = sizeof address_;
    SPATE_CHECK(::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address_), &size_) == 0);
    std::thread([this] { serve(); }).detach();  // runs as long as the process
  }

  UniqueFd connect() {
    UniqueFd made = local_socket(0);
    SPATE_CHECK(::connect(made.get(), reinterpret_cast<const sockaddr*>(&address_), size_) == 0);
    return made;
  }

 private:
  static std::unique_ptr<assembly::ClientProcess> open_client() {
    std::string folder = (std::filesystem::temp_directory_path() / "broker_fuzz.XXXXXX").string();
    SPATE_CHECK(::mkdtemp(folder.data()) != nullptr);
    assembly::ClientSettings settings;
    settings.config_file = folder + "/spate.toml";
    std::ofstream(settings.config_file) << kConfig;
    settings.overrides.push_back({"client.deadline", "10 ms", "the fuzzer"});
    settings.progress_thread = true;
    auto process = assembly::ClientProcess::open(settings);
    std::filesystem::remove_all(folder);
    SPATE_CHECK(process.has_value());
    return *std::move(process);
  }
  void serve() {
    for (;;) {
      auto broker = Broker::make(*process_, UniqueFd(::fcntl(listening_.get(), F_DUPFD_CLOEXEC, 3)));
      SPATE_CHECK(broker.has_value());
      (*broker)->run();
    }
  }
  const std::unique_ptr<assembly::ClientProcess> process_;
  const UniqueFd listening_;
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

class Run {
 public:
  Run(Bed& bed, ByteView script) : bed_(bed), in_(script) {}

  void play() {
    for (std::size_t i = 0; i < kMaxSteps && in_.ok() && in_.remaining() > 0; ++i) step();
  }
  /// Runs at the end of every script.
  void finish() {
    programs_ = {};
    memories_ = {};
    const UniqueFd proper = bed_.connect();
    const BrokerRequest settle;
    SPATE_CHECK(send_packet(proper.get(), packet_of(settle), -1).has_value());
    SPATE_CHECK(answers(proper.get()));  // otherwise it hangs, or has ended
    const auto packet = receive_packet(proper.get(), false);
    SPATE_CHECK(packet.has_value());
    const auto reply = wire::decode_body<BrokerReply>(packet->body);
    SPATE_CHECK(reply.has_value() && reply->error == Errc::kOk);
  }

 private:
  enum Step : std::uint8_t { kConnect, kRaw, kRequest, kAgain, kLeave, kForget, kHear, kSteps };

  void step() {
    const std::uint8_t what = in_.u8();
    UniqueFd& program = programs_[what / kSteps % kPrograms];
    if (!program) program = bed_.connect();
    switch (what % kSteps) {
      case kConnect: program = bed_.connect(); break;
      case kRaw: say(program, taken(in_.u8())); break;
      case kRequest: say(program, packet_of(request())); break;
      case kAgain: say(program, last_); break;
      case kLeave: program.reset(); break;
      case kForget: memories_[in_.u8() % memories_.size()].reset(); break;
      default: hear(program);
    }
  }
  Bytes taken(std::size_t wanted) {
    Bytes out(std::min(wanted, in_.remaining()));
    for (std::byte& byte : out) byte = static_cast<std::byte>(in_.u8());
    return out;
  }
  BrokerRequest request() {
    BrokerRequest made;
    made.word = static_cast<BrokerOp>(in_.u8() % 8);
    made.incarnation = in_.u8() % 3;
    made.wait = in_.u8() % 2 != 0;
    made.lock.handle = Handle(in_.u8() % 4);
    made.lock.kind = static_cast<LockKind>(in_.u8() % 4);
    made.lock.mode = static_cast<LockMode>(in_.u8() % 4);
    return made;
  }
  void say(const UniqueFd& program, Bytes body) {
    last_ = std::move(body);
    const UniqueFd other = descriptor(in_.u8());
    const int given = other ? other.get() : memory_;
    std::ignore = send_packet(program.get(), last_, given);  // the broker may have closed it, or have no room
  }
  /// The descriptor to send with a packet: none, the memory of an open file, or something else.
  UniqueFd descriptor(std::uint8_t which) {
    memory_ = -1;
    switch (which % 8) {
      case 0: return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
      case 1: return UniqueFd(::memfd_create("spate:", MFD_CLOEXEC));  // an empty one that is not sealed
      case 2: return UniqueFd(::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      case 3: return local_socket(0);
      case 4:
      case 5:
      case 6: {
        UniqueFd& memory = memories_[which / 8 % memories_.size()];
        if (!memory) memory = UniqueFd(static_cast<int>(make_memory("spate:", kMemoryBytes)));
        memory_ = memory.get();
        return {};
      }
      default: return {};
    }
  }
  static void hear(const UniqueFd& program) {
    pollfd some{program.get(), POLLIN, 0};
    while (::poll(&some, 1, 0) == 1) {
      if (!receive_packet(program.get(), false)) return;
    }
  }

  Bed& bed_;
  Decoder in_;
  std::array<UniqueFd, kPrograms> programs_;
  std::array<UniqueFd, 3> memories_;
  int memory_ = -1;
  Bytes last_;
};

/// The broker closes descriptors of a program a moment after the program has gone.
void check_descriptors(std::size_t before) {
  constexpr std::size_t kOthers = 16;  // descriptors of the client, which reconnects now and then
  for (int tries = 0; open_descriptors() > before + kOthers; ++tries) {
    SPATE_CHECK(tries < kTimeoutMs);
    ::usleep(1000);
  }
}

}  // namespace
}  // namespace spate::preload::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spate;
  static const bool quiet = log::set_levels("off").has_value();
  (void)quiet;
  static preload::fuzz::Bed* const bed = std::make_unique<preload::fuzz::Bed>().release();  // its thread never ends
  {
    preload::fuzz::Run run(*bed, ByteView(reinterpret_cast<const std::byte*>(data), size));
    run.play();
    run.finish();
  }
  static const std::size_t before = preload::fuzz::open_descriptors();
  preload::fuzz::check_descriptors(before);
  return 0;
}
