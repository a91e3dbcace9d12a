// SPDX-License-Identifier: Apache-2.0
// Compares bmi over TCP with plain epoll sockets on loopback. Both take turns in the same run: round trips of 64 bytes,
// and streams of large messages. Prints a table, and with --json a line for each figure. See docs/wire-tcp.md.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/unique_fd.h"
#include "bmi/module.h"
#include "bmi/network.h"
#include "bmi/tcp/tcp_module.h"
#include "plain_tcp.h"

namespace spate::bmi {
namespace {

constexpr int kRepetitions = 5;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// A network instance with one context, which one thread tests.
class Side {
 public:
  Side() {
    std::vector<std::unique_ptr<Module>> modules;
    modules.push_back(tcp::make_tcp_module(clock_));
    network = make_network(std::move(modules));
    context = network->open_context();
  }
  /// Waits for completions and returns how many there are.
  std::size_t completions(std::span<Completion> out, bool spin) {
    for (;;) {
      const std::size_t n = network->test_context(context, out);
      if (n > 0) return n;
      sleep(spin);
    }
  }
  void sleep(bool spin) {
    if (spin || !network->prepare_to_wait(context)) return;
    pollfd ready{network->wait_descriptor(context), POLLIN, 0};
    ::poll(&ready, 1, -1);
  }

  std::unique_ptr<Network> network;
  ContextId context;

 private:
  SystemClock clock_;
};

Address address_of(Side& from, const std::string& url) { return from.network->lookup(std::array{url}).value(); }

/// Answers requests until one with tag 0 comes. One send is in flight at a time.
void serve(Side& server, bool spin) {
  std::array<std::byte, kSmall> answer{};
  for (;;) {
    std::array<UnexpectedMessage, 4> requests;
    std::array<Completion, 4> done{};
    const std::size_t completions = server.network->test_context(server.context, done);
    const std::size_t n = server.network->test_unexpected(server.context, requests);
    for (std::size_t i = 0; i < n; ++i) {
      if (requests[i].tag == Tag(0)) return;
      const Segment segment = Segment::of(MutableByteView(answer));
      Message message;
      message.peer = requests[i].peer;
      message.tag = requests[i].tag;
      message.segments = SegmentList(&segment, 1);
      SPATE_CHECK(server.network->post_send(message, server.context, nullptr).has_value());
    }
    if (n == 0 && completions == 0) server.sleep(spin);
  }
}

double bmi_round_trip(bool spin) {
  Side client;
  Side server;
  const std::string url = server.network->listen("tcp://127.0.0.1:0", server.context).value();
  std::thread thread([&] { serve(server, spin); });
  std::array<std::byte, kSmall> request{};
  std::array<std::byte, kSmall> answer{};
  const Segment out = Segment::of(MutableByteView(request));
  const Segment in = Segment::of(MutableByteView(answer));
  Message send;
  send.peer = address_of(client, url);
  send.segments = SegmentList(&out, 1);
  Message receive = send;
  receive.segments = SegmentList(&in, 1);
  const auto round = [&](std::uint64_t tag) {
    send.tag = receive.tag = Tag(tag);
    const Posted receiving = client.network->post_recv(receive, client.context, nullptr).value();
    const Posted sending = client.network->post_send_unexpected(send, client.context, nullptr).value();
    std::size_t missing = (receiving.done ? 0U : 1U) + (sending.done ? 0U : 1U);
    std::array<Completion, 4> done{};
    while (missing > 0) missing -= client.completions(done, spin);
  };
  for (std::uint64_t i = 1; i < 100; ++i) round(i);
  const double begin = now();
  for (std::uint64_t i = 1; i <= kRounds; ++i) round(i);
  const double seconds = now() - begin;
  send.tag = Tag(0);
  SPATE_CHECK(client.network->post_send_unexpected(send, client.context, nullptr).has_value());
  thread.join();
  return seconds / kRounds * 1e6;
}

Message bulk_message(Address peer, const Segment& segment) {
  Message message;
  message.peer = peer;
  message.tag = Tag(1);
  message.message_class = MessageClass::kBulk;
  message.segments = SegmentList(&segment, 1);
  return message;
}

/// Waits for a request, then sends its sender `messages` messages, eight in flight.
void stream_out(Side& server, const Segment& segment, std::uint64_t messages, bool ready) {
  std::array<UnexpectedMessage, 1> start;
  while (server.network->test_unexpected(server.context, start) == 0) server.sleep(false);
  Message message = bulk_message(start[0].peer, segment);
  message.receiver_ready = ready;
  std::array<Completion, 8> done{};
  std::uint64_t posted = 0;
  std::uint64_t in_flight = 0;
  while (posted < messages || in_flight > 0) {
    while (posted < messages && in_flight < 8) {
      ++posted;
      if (!server.network->post_send(message, server.context, nullptr).value().done) ++in_flight;
    }
    if (in_flight > 0) in_flight -= server.completions(done, false);
  }
}

/// Receives `messages` messages with `ahead` receives posted. Returns the seconds from the request to the last message.
double stream_in(Side& client, const Message& receive, std::uint64_t messages, std::uint64_t ahead) {
  std::uint64_t posted = 0;
  std::uint64_t finished = 0;
  const auto post = [&] {
    ++posted;
    if (client.network->post_recv(receive, client.context, nullptr).value().done) ++finished;
  };
  while (posted < ahead) post();
  Message start = receive;
  start.segments = {};
  start.tag = Tag(2);
  std::array<Completion, 8> done{};
  if (!client.network->post_send_unexpected(start, client.context, nullptr).value().done) {
    finished += client.completions(done, false) - 1;  // the request itself is no received message
  }
  const double begin = now();
  while (finished < messages) {
    const std::size_t n = client.completions(done, false);
    finished += n;
    for (std::size_t i = 0; i < n && posted < messages; ++i) post();
  }
  return now() - begin;
}

/// A stream from server to client. `ready`: all receives are posted before; otherwise eight at a time (rendezvous).
double bmi_stream(std::uint64_t size, int file, bool ready) {
  Side client;
  Side server;
  const std::string url = server.network->listen("tcp://127.0.0.1:0", server.context).value();
  const std::uint64_t messages = kStreamBytes / size;
  std::vector<std::byte> data(size);
  const Segment out = file >= 0 ? Segment::of_file(file, 0, size) : Segment::of(MutableByteView(data));
  std::thread thread([&] { stream_out(server, out, messages, ready); });
  std::vector<std::byte> room(size);
  const Segment in = Segment::of(MutableByteView(room));
  const std::uint64_t ahead = ready ? messages : std::min<std::uint64_t>(messages, 8);
  const double seconds = stream_in(client, bulk_message(address_of(client, url), in), messages, ahead);
  thread.join();
  return static_cast<double>(kStreamBytes) / seconds / 1e9;
}

// --- comparing ---

struct Case {
  std::string name;
  std::string unit;
  bool more_is_better = true;
  std::function<double()> raw;
  std::function<double()> bmi;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void compare(const Case& c, bool json) {
  std::vector<double> raw;
  std::vector<double> bmi;
  double raw_cpu = 0;
  double bmi_cpu = 0;
  for (int i = 0; i < kRepetitions; ++i) {  // in turns, since the machine's other load must hit both
    const double before = cpu_seconds();
    raw.push_back(c.raw());
    const double between = cpu_seconds();
    bmi.push_back(c.bmi());
    raw_cpu += between - before;
    bmi_cpu += cpu_seconds() - between;
  }
  const double ratio = c.more_is_better ? median(bmi) / median(raw) : median(raw) / median(bmi);
  fmt::print("{:28} {:9.2f} {:9.2f} {:6} {:6.0f} %   {:6.2f} {:6.2f}\n", c.name, median(raw), median(bmi), c.unit,
             ratio * 100, raw_cpu / kRepetitions, bmi_cpu / kRepetitions);
  if (json) {
    fmt::print(
        "{{\"bench\":\"bmi_tcp\",\"case\":\"{}\",\"unit\":\"{}\",\"raw\":{:.3f},\"bmi\":{:.3f},\"of_raw\":{:.3f}}}\n",
        c.name, c.unit, median(raw), median(bmi), ratio);
  }
}

int run(bool json, std::string_view only) {
  constexpr std::uint64_t kMiB = 1024 * 1024;
  const UniqueFd file(::open("/dev/shm", O_TMPFILE | O_RDWR, 0600));
  const std::vector<std::byte> data(kMiB, std::byte{1});
  SPATE_CHECK(::pwrite(file.get(), data.data(), data.size(), 0) == static_cast<ssize_t>(data.size()));
  std::vector<Case> cases{{"round trip 64 B, sleeping", "us", false, [] { return raw_round_trip(false); },
                           [] { return bmi_round_trip(false); }},
                          {"round trip 64 B, spinning", "us", false, [] { return raw_round_trip(true); },
                           [] { return bmi_round_trip(true); }}};
  for (const std::uint64_t size : {kMiB / 16, kMiB / 4, kMiB}) {
    const int fd = file.get();
    const std::string kib = std::to_string(size / 1024) + " KiB";
    cases.push_back({kib + ", ready", "GB/s", true, [=] { return raw_stream(size, -1); },
                     [=] { return bmi_stream(size, -1, true); }});
    cases.push_back({kib + ", rendezvous", "GB/s", true, [=] { return raw_stream(size, -1); },
                     [=] { return bmi_stream(size, -1, false); }});
    cases.push_back({kib + ", sendfile", "GB/s", true, [=] { return raw_stream(size, fd); },
                     [=] { return bmi_stream(size, fd, true); }});
  }
  fmt::print("{:28} {:>9} {:>9} {:6} {:>8}   {:>13}\n", "", "raw", "bmi", "", "of raw", "CPU s raw bmi");
  for (const Case& c : cases) {
    if (only.empty() || c.name.find(only) != std::string::npos) compare(c, json);
  }
  return 0;
}

}  // namespace
}  // namespace spate::bmi

int main(int argc, char** argv) {
  bool json = false;
  std::string_view only;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") {
      json = true;
    } else {
      only = argv[i];
    }
  }
  return spate::bmi::run(json, only);
}
