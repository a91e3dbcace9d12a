// SPDX-License-Identifier: Apache-2.0
// nbd_client: random aligned reads or writes on any NBD server, with a given depth; measures each request. README.md.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/unique_fd.h"
#include "nbd/protocol.h"

namespace {

using namespace spate;

struct Options {
  std::string address;  // "unix:PATH" or "PORT"
  std::size_t size = 4096;
  std::size_t depth = 16;
  std::size_t connections = 1;
  double seconds = 1;
  double rate = 0;  // bytes a second; 0: no limit
  bool write = false;
};

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

UniqueFd connect_to(const std::string& where) {
  const bool local = where.starts_with("unix:");
  UniqueFd fd(::socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int failed = 0;
  if (local) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    where.copy(address.sun_path, sizeof address.sun_path - 1, 5);
    failed = ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(where)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    failed = ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    const int one = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  if (failed != 0) die("connect");
  return fd;
}

void send_all(int fd, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) die("send");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void receive_all(int fd, MutableByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::recv(fd, bytes.data(), bytes.size(), 0);
    if (n <= 0) die("recv");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

/// One connection. It asks for simple replies, and drops the data.
class Connection {
 public:
  Connection(const Options& options, Random& random)
      : options_(options), random_(random), fd_(connect_to(options.address)), begun_(options.depth), input_(1U << 20U) {
    Bytes init(18);
    receive_all(fd_.get(), init);
    Bytes hello;
    nbd::BigEndian(hello).u32(nbd::kFixedNewstyle | nbd::kNoZeroes).u64(nbd::kOptionMagic).u32(1).u32(1).text("e");
    send_all(fd_.get(), hello);
    Bytes info(10);
    receive_all(fd_.get(), info);
    blocks_ = nbd::get_u64(info.data()) / options_.size;
    payload_.resize(options_.write ? options_.size : 0, std::byte{7});
  }
  int fd() const { return fd_.get(); }
  std::size_t outstanding() const { return outstanding_; }
  std::vector<std::uint32_t>& latencies() { return latencies_; }
  double steps_us() const { return steps_us_; }

  void ask(std::size_t slot, MonoTime now) {
    begun_[slot] = now;
    nbd::BigEndian(output_).u32(nbd::kRequestMagic).u16(0).u16(options_.write ? 1 : 0).u64(slot);
    nbd::BigEndian(output_).u64(random_.below(blocks_) * options_.size).u32(static_cast<std::uint32_t>(options_.size));
    output_.insert(output_.end(), payload_.begin(), payload_.end());
    ++outstanding_;
  }
  void flush() {
    send_all(fd_.get(), output_);
    output_.clear();
  }
  /// Handles replies that have come. Sends a new request for each reply, unless `last`.
  void take(const Clock& clock, bool last) {
    const ssize_t n = ::recv(fd_.get(), input_.data() + have_, input_.size() - have_, 0);
    if (n <= 0) die("recv");
    ByteView in(input_.data(), have_ + static_cast<std::size_t>(n));
    const MonoTime now = clock.now();
    while (true) {
      const std::size_t eaten = std::min(left_, in.size());
      left_ -= eaten;
      in = in.subspan(eaten);
      if (left_ == 0 && in_reply_) {
        const auto took = static_cast<std::uint32_t>((now - begun_[slot_]).count() / 1000);
        if (!latencies_.empty()) steps_us_ += std::abs(static_cast<double>(took) - latencies_.back());
        latencies_.push_back(took);
        --outstanding_;
        in_reply_ = false;
        if (!last) ask(slot_, now);
      }
      if (left_ > 0 || in.size() < nbd::kSimpleReplyBytes) break;
      if (nbd::get_u32(in.data()) != nbd::kSimpleReplyMagic || nbd::get_u32(in.data() + 4) != 0) die("reply");
      slot_ = nbd::get_u64(in.data() + 8) % begun_.size();
      in = in.subspan(nbd::kSimpleReplyBytes);
      left_ = options_.write ? 0 : options_.size;
      in_reply_ = true;
    }
    have_ = in.size();
    std::memmove(input_.data(), in.data(), have_);
    if (!output_.empty()) flush();
  }

 private:
  const Options& options_;
  Random& random_;
  UniqueFd fd_;
  std::vector<MonoTime> begun_;
  std::uint64_t blocks_ = 0;
  Bytes payload_;
  Bytes output_;
  Bytes input_;
  std::size_t have_ = 0;
  std::size_t left_ = 0;
  std::size_t slot_ = 0;
  bool in_reply_ = false;
  std::size_t outstanding_ = 0;
  std::vector<std::uint32_t> latencies_;
  double steps_us_ = 0;  // the sum of the differences between consecutive latencies
};

double cpu_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         static_cast<double>(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

using Connections = std::vector<std::unique_ptr<Connection>>;

/// Sleeps until the bytes received so far were due at the given rate.
void keep_to_rate(const Options& options, const Connections& all, const Clock& clock, MonoTime start) {
  if (options.rate <= 0) return;
  std::size_t requests = 0;
  for (const auto& one : all) requests += one->latencies().size();
  const double due = static_cast<double>(requests * options.size) / options.rate;
  const double early = due - std::chrono::duration<double>(clock.now() - start).count();
  // This sleep makes the load's rate.
  if (early > 0) std::this_thread::sleep_for(std::chrono::duration<double>(early));
}

void print(const Options& options, const Connections& all, double seconds) {
  std::vector<std::uint32_t> took;
  double steps = 0;
  for (const auto& one : all) {
    took.insert(took.end(), one->latencies().begin(), one->latencies().end());
    steps += one->steps_us();
  }
  std::sort(took.begin(), took.end());
  double sum = 0;
  for (const std::uint32_t us : took) sum += us;
  const auto count = static_cast<double>(took.size());
  std::printf(
      "{\"requests\": %zu, \"seconds\": %.4f, \"bytes\": %.0f, \"mean_us\": %.1f, \"p50_us\": %u, \"p99_us\": %u, "
      "\"max_us\": %u, "
      "\"jitter_us\": %.1f, \"client_cpu\": %.4f}\n",
      took.size(), seconds, count * static_cast<double>(options.size), sum / count, took[took.size() / 2],
      took[took.size() * 99 / 100], took.back(), steps / count, cpu_seconds());
}

void run(const Options& options) {
  const SystemClock clock;
  SystemRandom random;
  Connections all;
  for (std::size_t i = 0; i < options.connections; ++i) all.push_back(std::make_unique<Connection>(options, random));
  const MonoTime start = clock.now();
  const MonoTime end = start + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.seconds));
  std::vector<pollfd> waits;
  for (auto& one : all) {
    for (std::size_t slot = 0; slot < options.depth; ++slot) one->ask(slot, clock.now());
    one->flush();
    waits.push_back({one->fd(), POLLIN, 0});
  }
  std::size_t left = options.connections * options.depth;
  while (left > 0) {
    if (all.size() > 1) ::poll(waits.data(), waits.size(), -1);
    keep_to_rate(options, all, clock, start);
    const bool last = clock.now() >= end;
    left = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool ready = all.size() == 1 || waits[i].revents != 0;
      if (ready && all[i]->outstanding() > 0) all[i]->take(clock, last);
      if (all[i]->outstanding() == 0) waits[i].fd = -1;
      left += all[i]->outstanding();
    }
  }
  print(options, all, std::chrono::duration<double>(clock.now() - start).count());
}

}  // namespace

/// nbd_client WHERE SIZE DEPTH CONNECTIONS SECONDS read|write [RATE]. WHERE: a port of this machine, or unix:PATH.
/// RATE: bytes a second.
int main(int argc, char** argv) {
  if (argc != 7 && argc != 8) return 2;
  Options options;
  options.address = argv[1];
  options.size = std::stoul(argv[2]);
  options.depth = std::stoul(argv[3]);
  options.connections = std::stoul(argv[4]);
  options.seconds = std::stod(argv[5]);
  options.write = std::string(argv[6]) == "write";
  options.rate = argc == 8 ? std::stod(argv[7]) : 0;
  run(options);
  return 0;
}
