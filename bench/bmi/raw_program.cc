// SPDX-License-Identifier: Apache-2.0
// Measures the patterns over plain non-blocking TCP sockets in an epoll set: the least code that does the same work.
// Prints one number.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/unique_fd.h"
#include "bmi/group.h"
#include "bmi/plan.h"

namespace spate::bench {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void make_ready(int fd) {
  const int one = 1;
  SPATE_CHECK(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
  SPATE_CHECK(::fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
}

/// The bytes that go in one direction, as pieces that are sent or filled in order.
class Flow {
 public:
  void add(void* data, std::size_t size) { pieces_.push_back({data, size}); }
  bool done() const { return at_ == pieces_.size(); }
  /// Moves some bytes. False: the socket can take no more, or has no more, for now.
  bool move(int fd, bool out) {
    msghdr message{};
    message.msg_iov = &pieces_[at_];
    message.msg_iovlen = std::min<std::size_t>(pieces_.size() - at_, 64);
    const ssize_t n = out ? ::sendmsg(fd, &message, MSG_NOSIGNAL) : ::recvmsg(fd, &message, 0);
    if (n <= 0) {
      SPATE_CHECK(n < 0 && errno == EAGAIN);
      return false;
    }
    auto left = static_cast<std::size_t>(n);
    for (; left > 0 && left >= pieces_[at_].iov_len; ++at_) left -= pieces_[at_].iov_len;
    if (left == 0) return true;
    pieces_[at_].iov_base = static_cast<char*>(pieces_[at_].iov_base) + left;
    pieces_[at_].iov_len -= left;
    return true;
  }
  void clear() {
    pieces_.clear();
    at_ = 0;
  }

 private:
  std::vector<iovec> pieces_;
  std::size_t at_ = 0;
};

struct Line {
  UniqueFd fd;
  Flow out;
  Flow in;
};

/// All connections of one process.
class End {
 public:
  explicit End(bool poll) : poll_(poll), epoll_(epoll_create1(0)) {}

  std::string listen() {
    listener_.reset(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    SPATE_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    SPATE_CHECK(::listen(listener_.get(), 64) == 0);
    SPATE_CHECK(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    return std::to_string(ntohs(address.sin_port));
  }
  Line& call(const std::string& port) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    SPATE_CHECK(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    return add(std::move(fd));
  }
  Line& answer() { return add(UniqueFd(::accept(listener_.get(), nullptr, nullptr))); }

  /// Sends and receives until the queues of all connections are empty.
  void drain() {
    for (;;) {
      bool open = false;
      bool moved = false;
      for (const auto& line : lines_) moved |= push(*line, open);
      if (!open) return;
      if (!moved) wait();
    }
  }
  bool push(Line& line, bool& open) {
    bool moved = false;
    while (!line.out.done() && line.out.move(line.fd.get(), true)) moved = true;
    while (!line.in.done() && line.in.move(line.fd.get(), false)) moved = true;
    open |= !line.out.done() || !line.in.done();
    return moved;
  }
  void wait() {
    std::array<epoll_event, 64> events{};
    while (::epoll_wait(epoll_.get(), events.data(), 64, poll_ ? 0 : -1) <= 0) {
    }
  }
  std::vector<std::unique_ptr<Line>>& lines() { return lines_; }

 private:
  Line& add(UniqueFd fd) {
    SPATE_CHECK(fd);
    make_ready(fd.get());
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    SPATE_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0);
    lines_.push_back(std::make_unique<Line>());
    lines_.back()->fd = std::move(fd);
    return *lines_.back();
  }

  const bool poll_;
  UniqueFd epoll_;
  UniqueFd listener_;
  std::vector<std::unique_ptr<Line>> lines_;
};

Line& meet(End& end, Group& group, int rank) {
  if (rank == 0) group.tell(0, end.listen());
  group.barrier();
  return rank == 0 ? end.answer() : end.call(group.hear(0));
}

double round_trip(const plan& plan, Group& group, int rank) {
  End end(plan.poll != 0);
  Line& line = meet(end, group, rank);
  std::vector<char> out(plan.size);
  std::vector<char> in(plan.size);
  struct batches batches{};
  for (long i = -plan.count / 10; i <= plan.count; ++i) {
    if (i == batches.next) batches_note(&batches, &plan, now());
    line.out.clear();
    line.in.clear();
    line.in.add(in.data(), in.size());
    if (rank == 1) line.out.add(out.data(), out.size());
    end.drain();
    if (rank == 0) {
      line.out.add(out.data(), out.size());
      end.drain();
    }
  }
  return batches_median(&batches, &plan);
}

double stream(const plan& plan, Group& group, int rank) {
  End end(plan.poll != 0);
  Line& line = meet(end, group, rank);
  std::vector<char> data(plan.size);
  Flow& flow = rank == 0 ? line.in : line.out;
  for (long i = 0; i < plan.count; ++i) flow.add(data.data(), data.size());
  group.barrier();
  const double begin = now();
  end.drain();
  const double seconds = now() - begin;
  group.barrier();
  return static_cast<double>(plan.count) * static_cast<double>(plan.size) / seconds;
}

/// Small round trips on one connection, while rank 1 sends 64 KiB after 64 KiB on another one. Yields the percentile
/// plan.percent of their times, in microseconds.
double priority(const plan& plan, Group& group, int rank) {
  End end(plan.poll != 0);
  Line& control = meet(end, group, rank);
  Line& bulk = rank == 0 ? end.answer() : end.call(group.hear(0));
  std::vector<char> small(plan.size);
  std::vector<char> large(64 * 1024);
  Flow& flow = rank == 0 ? bulk.in : bulk.out;
  const auto until = [&](const Flow& wanted) {
    while (!wanted.done()) {
      bool open = false;
      bool moved = end.push(control, open);
      if (wanted.done()) return;
      if (plan.load > 0 && flow.done()) {
        flow.clear();
        flow.add(large.data(), large.size());
      }
      if (plan.load > 0) moved |= flow.move(bulk.fd.get(), rank == 1);
      if (!moved) end.wait();
    }
  };
  std::vector<double> times;
  for (long i = 0; i < plan.count; ++i) {
    const double begin = now();
    control.in.clear();
    control.out.clear();
    control.in.add(small.data(), small.size());
    if (rank == 1) control.out.add(small.data(), small.size());
    until(control.in);
    if (rank == 0) control.out.add(small.data(), small.size());
    until(control.out);
    times.push_back(now() - begin);
  }
  group.barrier();
  std::sort(times.begin(), times.end());
  return times[times.size() * static_cast<std::size_t>(plan.percent) / 100] * 1e6;
}

/// Answers one request on each connection with the acknowledgment and the data.
void serve(End& end, std::vector<char>& data, std::vector<char>& small) {
  struct State {
    bool answered = false;
  };
  std::vector<State> states(end.lines().size());
  for (const auto& line : end.lines()) {
    line->in.clear();
    line->out.clear();
    line->in.add(small.data(), READ_REQUEST_BYTES);
  }
  for (;;) {
    bool open = false;
    bool moved = false;
    for (std::size_t i = 0; i < states.size(); ++i) {
      Line& line = *end.lines()[i];
      moved |= end.push(line, open);
      if (states[i].answered || !line.in.done()) continue;
      states[i].answered = moved = open = true;
      line.out.add(small.data(), READ_ACK_BYTES);
      line.out.add(data.data(), data.size());
    }
    if (!open) return;
    if (!moved) end.wait();
  }
}

void read_all(End& end, std::vector<char>& data, std::vector<char>& small) {
  constexpr std::size_t kPiece = READ_MESSAGE_BYTES / READ_PIECES;
  for (std::size_t s = 0; s < end.lines().size(); ++s) {
    Line& line = *end.lines()[s];
    line.in.clear();
    line.out.clear();
    line.out.add(small.data(), READ_REQUEST_BYTES);
    line.in.add(small.data(), READ_ACK_BYTES);
    char* const begin = data.data() + s * 2 * READ_PAIR_BYTES;
    for (std::size_t at = 0; at < 2 * READ_PAIR_BYTES; at += 2 * kPiece) line.in.add(begin + at, kPiece);
  }
  end.drain();
}

double parallel_read(const plan& plan, Group& group, int rank) {
  End end(plan.poll != 0);
  const bool server = rank < plan.servers;
  if (server) group.tell(rank, end.listen());
  group.barrier();
  for (int s = 0; s < plan.servers && !server; ++s) (void)end.call(group.hear(s));
  for (int c = 0; c < plan.clients && server; ++c) (void)end.answer();
  std::vector<char> small(READ_ACK_BYTES);
  std::vector<char> data(server ? std::size_t{READ_PAIR_BYTES}
                                : std::size_t{2} * READ_PAIR_BYTES * static_cast<std::size_t>(plan.servers));
  double seconds = 0;
  for (int round = 0; round <= plan.rounds; ++round) {
    group.barrier();
    const double begin = now();
    if (server) {
      serve(end, data, small);
    } else {
      read_all(end, data, small);
    }
    group.tell(rank, fmt::format("{}", server ? 0 : now() - begin));
    group.barrier();
    double slowest = 0;
    for (int r = plan.servers; r < plan.servers + plan.clients; ++r)
      slowest = std::max(slowest, std::stod(group.hear(r)));
    if (round > 0) seconds += slowest / plan.rounds;
    group.barrier();
  }
  return static_cast<double>(plan.servers) * plan.clients * static_cast<double>(READ_PAIR_BYTES) / seconds;
}

}  // namespace
}  // namespace spate::bench

int main(int argc, char** argv) {
  using namespace spate::bench;
  struct plan plan{};
  if (plan_parse(&plan, argc, argv) == 0) return 2;
  const int size = plan.pattern == PATTERN_READ ? plan.servers + plan.clients : 2;
  const auto results = Group::run(size, [&](Group& group, int rank) {
    if (plan.pattern == PATTERN_READ) return parallel_read(plan, group, rank);
    if (plan.pattern == PATTERN_PRIORITY) return priority(plan, group, rank);
    return plan.pattern == PATTERN_STREAM ? stream(plan, group, rank) : round_trip(plan, group, rank);
  });
  fmt::print("{:.6g}\n",
             plan.pattern == PATTERN_ROUND_TRIP || plan.pattern == PATTERN_PRIORITY ? results[1] : results[0]);
  return 0;
}
