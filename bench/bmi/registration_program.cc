// SPDX-License-Identifier: Apache-2.0
// Measures remote reads over a libfabric provider with different treatments of registration (ORFA, Figure 3), and the
// cost of registering and of copying by themselves. Prints one number: bytes per second, or microseconds.
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "bmi/group.h"
#include "bmi/network.h"
#include "bmi/ofi/ofi_module.h"

namespace spate::bench {
namespace {

using bmi::MessageClass;
using bmi::Segment;

constexpr bmi::Tag kAsk(1);
constexpr bmi::Tag kData(2);
constexpr std::size_t kRequestBytes = 25;

struct Job {
  std::string_view what = "cache";  // cache, register, copy: a kind of reads; registering, copying: their cost alone
  std::string url = "ofi+tcp://127.0.0.1:0";
  std::size_t size = 65536;
  long count = 1000;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// The side of one process. It never sleeps.
class End {
 public:
  explicit End(std::string_view what) {
    bmi::NetworkOptions options;
    options.connect_timeout_ms = 50'000;  // connecting is slow on an emulated processor
    bmi::ofi::OfiOptions module;
    // With "copy", messages of any size are copied through packets; otherwise none is.
    const bool copies = what == "copy";
    options.eager_limit_bytes = copies ? options.eager_limit_bytes : 0;
    options.copy_limit_bytes = copies ? std::numeric_limits<std::uint64_t>::max() : 0;
    module.watch_pages = what == "cache";
    std::vector<std::unique_ptr<bmi::Module>> modules;
    modules.push_back(bmi::ofi::make_ofi_module(clock_, module));
    module_ = static_cast<bmi::ofi::OfiModule*>(modules.front().get());
    network_ = bmi::make_network(std::move(modules), options);
    context_ = network_->open_context();
  }
  bmi::Network& network() { return *network_; }
  bmi::ofi::OfiModule& module() { return *module_; }

  bmi::Address answer(const std::string& url, Group& group) {
    group.tell(0, network_->listen(url, context_).value());
    group.barrier();
    std::array<bmi::UnexpectedMessage, 1> message;
    while (network_->test_unexpected(context_, message) == 0) step();
    return message[0].peer;
  }
  bmi::Address call(Group& group) {
    group.barrier();
    bmi::Message hello;
    hello.peer = network_->lookup(std::array{group.hear(0)}).value();
    hello.tag = kAsk;
    count(network_->post_send_unexpected(hello, context_, nullptr));
    drain();
    while (!network_->peer_info(hello.peer).connected) step();
    return hello.peer;
  }
  void receive(bmi::Address peer, bmi::Tag tag, MessageClass c, const Segment& to) {
    count(network_->post_recv({peer, tag, c, {&to, 1}}, context_, nullptr));
  }
  void send(bmi::Address peer, bmi::Tag tag, MessageClass c, const Segment& from) {
    bmi::Message message{peer, tag, c, {&from, 1}};
    message.receiver_ready = true;
    count(network_->post_send(message, context_, nullptr));
  }
  void drain() {
    while (open_ > 0) step();
  }
  void step() {
    std::array<bmi::Completion, 16> done;
    const std::size_t n = network_->test_context(context_, done);
    for (std::size_t i = 0; i < n; ++i) {
      if (done[i].status == Errc::kOk) continue;
      fmt::print(stderr, "registration_program: {}\n", describe(done[i].status));
      ::_exit(1);
    }
    open_ -= n;
  }

 private:
  void count(const Result<bmi::Posted>& posted) {
    SPATE_CHECK(posted.has_value());
    if (!posted->done) ++open_;
  }

  SystemClock clock_;
  bmi::ofi::OfiModule* module_ = nullptr;
  std::unique_ptr<bmi::Network> network_;
  bmi::ContextId context_;
  std::size_t open_ = 0;
};

/// Rank 1 reads from rank 0, one request at a time. Yields bytes per second.
double read(const Job& job, Group& group, int rank) {
  End end(job.what);
  const bmi::Address peer = rank == 0 ? end.answer(job.url, group) : end.call(group);
  std::vector<std::byte> data(job.size, std::byte{1});
  std::vector<std::byte> request(kRequestBytes);
  const Segment all = Segment::of(MutableByteView(data));
  const Segment asked = Segment::of(MutableByteView(request));
  const long warm = job.count / 10 + 1;
  double begin = 0;
  if (rank == 0) end.receive(peer, kAsk, MessageClass::kControl, asked);
  group.barrier();
  for (long i = -warm; i < job.count; ++i) {
    if (i == 0) begin = now();
    if (rank == 1) {
      end.receive(peer, kData, MessageClass::kBulk, all);
      end.send(peer, kAsk, MessageClass::kControl, asked);
    }
    end.drain();
    if (rank == 0) {
      if (i + 1 < job.count) end.receive(peer, kAsk, MessageClass::kControl, asked);
      end.send(peer, kData, MessageClass::kBulk, all);
    }
  }
  end.drain();
  const double seconds = now() - begin;
  // Neither process may end before the other one is done. Then check that memory was registered as `what` says.
  group.barrier();
  const bmi::PinCounters pins = end.module().pin_counters();
  if (rank == 0) SPATE_CHECK((pins.misses + pins.hits > 0) == (job.what != "copy"));
  if (rank == 0 && job.what == "register") SPATE_CHECK(pins.hits == 0);
  return static_cast<double>(job.size) * static_cast<double>(job.count) / seconds;
}

/// Microseconds to register and deregister `size` bytes of memory that is already mapped and touched.
double registering(const Job& job, Group& group, int rank) {
  End end(job.what);
  (void)(rank == 0 ? end.answer(job.url, group) : end.call(group));
  std::vector<std::byte> data(job.size, std::byte{1});
  group.barrier();
  const double begin = now();
  for (long i = 0; i < job.count && rank == 1; ++i) {
    SPATE_CHECK(end.module().mem_register(data).has_value());
    end.module().mem_deregister(data);
  }
  const double seconds = now() - begin;
  group.barrier();
  return seconds / static_cast<double>(job.count) * 1e6;
}

/// Microseconds to copy `size` bytes from memory that is not in the processor's caches.
double copying(const Job& job) {
  constexpr std::size_t kPool = std::size_t{64} << 20U;
  std::vector<std::byte> pool(kPool, std::byte{1});
  std::vector<std::byte> data(job.size, std::byte{2});
  std::size_t at = 0;
  const double begin = now();
  for (long i = 0; i < job.count; ++i) {
    std::memcpy(data.data(), pool.data() + at, job.size);
    asm volatile("" : : "r"(data.data()) : "memory");
    at = at + 2 * job.size > kPool ? 0 : at + job.size;
  }
  return (now() - begin) / static_cast<double>(job.count) * 1e6;
}

bool parse(Job& job, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word(argv[i]);
    const std::size_t at = word.find('=');
    if (at == std::string_view::npos) return false;
    const std::string_view name = word.substr(0, at);
    const char* const value = argv[i] + at + 1;
    if (name == "what") {
      job.what = value;
    } else if (name == "url") {
      job.url = value;
    } else if (name == "size") {
      job.size = std::strtoul(value, nullptr, 10);
    } else if (name == "count") {
      job.count = std::strtol(value, nullptr, 10);
    } else {
      return false;
    }
  }
  return job.size > 0 && job.size <= (std::size_t{16} << 20U) && job.count > 0;
}

}  // namespace
}  // namespace spate::bench

int main(int argc, char** argv) {
  using namespace spate::bench;
  Job job;
  if (!parse(job, argc, argv)) {
    fmt::print(stderr,
               "usage: registration_program [what=cache|register|copy|registering|copying] [url=ofi+PROVIDER://...]\n"
               "         [size=N] [count=N]\n");
    return 2;
  }
  if (job.what == "copying") {
    fmt::print("{:.6g}\n", copying(job));
    return 0;
  }
  const auto results = Group::run(2, [&](Group& group, int rank) {
    return job.what == "registering" ? registering(job, group, rank) : read(job, group, rank);
  });
  fmt::print("{:.6g}\n", results[1]);
  return 0;
}
