// SPDX-License-Identifier: Apache-2.0
#include "measure/raw_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <random>
#include <tuple>

namespace spate::measure {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// The client's side of all connections: each peer has a queue of buffers to fill, or to send, in order.
class Client {
 public:
  Client(const RawPeers& peers, StreamPlan::Direction direction)
      : peers_(peers),
        reading_(direction == StreamPlan::Direction::kRead),
        lanes_(peers.size()),
        polled_(peers.size()) {
    for (std::size_t i = 0; i < peers.size(); ++i) polled_[i].fd = peers.socket(i);
  }

  /// Adds a request with its buffer at the end of the peer's queue.
  Result<void> add(std::size_t peer, const RawRequest& request, std::size_t slot, MutableByteView memory) {
    lanes_[peer].push_back(Transfer{request, slot, memory, 0, 0});
    if (!reading_) return {};
    if (::send(peers_.socket(peer), &request, sizeof request, MSG_NOSIGNAL) != sizeof request) return broken("send");
    return {};
  }

  /// Waits and moves bytes until at least one request is done; appends the finished slots to `done`.
  Result<void> work(std::vector<std::size_t>& done) {
    while (done.empty()) {
      for (std::size_t i = 0; i < lanes_.size(); ++i) polled_[i].events = events_of(lanes_[i]);
      if (::poll(polled_.data(), polled_.size(), -1) < 0 && errno != EINTR) return errno_error(errno, "poll");
      for (std::size_t i = 0; i < lanes_.size(); ++i) {
        if ((polled_[i].revents & POLLOUT) != 0) {
          SPATE_TRY(std::ignore, send_some(i));
        }
        if ((polled_[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
          SPATE_TRY(std::ignore, receive_some(i, done));
        }
      }
    }
    return {};
  }

 private:
  struct Transfer {
    RawRequest request;
    std::size_t slot;
    MutableByteView memory;
    std::uint64_t moved;     // bytes of `memory`; for a write with the request before them
    std::uint64_t answered;  // bytes of the answer to a write
  };
  using Lane = std::deque<Transfer>;

  static Error broken(const char* what) {
    return errno_error(errno == 0 ? ECONNRESET : errno, std::string(what) + " of the raw probe");
  }
  static bool all_sent(const Transfer& t) { return t.moved == sizeof t.request + t.memory.size(); }

  short events_of(const Lane& lane) const {
    if (lane.empty()) return 0;
    if (reading_) return POLLIN;
    const bool more = std::any_of(lane.begin(), lane.end(), [](const Transfer& t) { return !all_sent(t); });
    return static_cast<short>(POLLIN | (more ? POLLOUT : 0));
  }

  Result<void> send_some(std::size_t peer) {
    for (Transfer& t : lanes_[peer]) {
      while (!all_sent(t)) {
        iovec pieces[2];
        std::size_t count = 0;
        const std::uint64_t of_body = t.moved <= sizeof t.request ? 0 : t.moved - sizeof t.request;
        if (t.moved < sizeof t.request)
          pieces[count++] = {reinterpret_cast<std::byte*>(&t.request) + t.moved, sizeof t.request - t.moved};
        pieces[count++] = {t.memory.data() + of_body, t.memory.size() - of_body};
        msghdr message{};
        message.msg_iov = pieces;
        message.msg_iovlen = count;
        const ssize_t n = ::sendmsg(peers_.socket(peer), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return {};
        if (n <= 0) return broken("send");
        t.moved += static_cast<std::uint64_t>(n);
      }
    }
    return {};
  }

  Result<void> receive_some(std::size_t peer, std::vector<std::size_t>& done) {
    Lane& lane = lanes_[peer];
    while (!lane.empty()) {
      Transfer& t = lane.front();
      auto* const answer = reinterpret_cast<std::byte*>(&t.request);
      std::byte* const into = reading_ ? t.memory.data() + t.moved : answer + t.answered;
      const std::uint64_t want = reading_ ? t.memory.size() - t.moved : sizeof t.request - t.answered;
      const ssize_t n = ::recv(peers_.socket(peer), into, want, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return {};
      if (n <= 0) return broken("receive");
      (reading_ ? t.moved : t.answered) += static_cast<std::uint64_t>(n);
      if (static_cast<std::uint64_t>(n) < want) continue;
      done.push_back(t.slot);
      lane.pop_front();
    }
    return {};
  }

  const RawPeers& peers_;
  const bool reading_;
  std::vector<Lane> lanes_;
  std::vector<pollfd> polled_;
};

Result<void> check(const RawPeers& peers, const StreamPlan& plan, MutableByteView memory) {
  const bool good = peers.size() > 0 && plan.request_bytes > 0 && plan.request_bytes <= RawPeers::kMaxBytes &&
                    plan.total_bytes % plan.request_bytes == 0 && plan.in_flight > 0 &&
                    memory.size() >= plan.in_flight * plan.request_bytes;
  if (!good) return Error(Errc::kInvalidArgument, "a stream of whole requests, and a buffer for each in flight");
  return {};
}

bool send_whole(int socket, ByteView bytes) {
  return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

/// Receives parts of replies of `reply_bytes`. Returns how many replies are complete; negative: the connection broke.
int take_replies(int socket, std::uint64_t reply_bytes, std::uint64_t& partial, Buffer& scratch, int flags) {
  const ssize_t n = ::recv(socket, scratch.data(), scratch.size(), flags);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (n <= 0) return -1;
  partial += static_cast<std::uint64_t>(n);
  const auto whole = static_cast<int>(partial / reply_bytes);
  partial %= reply_bytes;
  return whole;
}

}  // namespace

Result<void> run_stream(const RawPeers& peers, const StreamPlan& plan, MutableByteView memory) {
  SPATE_TRY(std::ignore, check(peers, plan, memory));
  const bool reading = plan.direction == StreamPlan::Direction::kRead;
  Client client(peers, plan.direction);
  const std::uint64_t requests = plan.total_bytes / plan.request_bytes;
  std::uint64_t next = 0;
  const auto add = [&](std::size_t slot) -> Result<void> {
    const std::uint64_t index = next++;
    RawRequest request;
    request.op = reading ? RawRequest::Op::kSend : RawRequest::Op::kReceive;
    request.offset = index / peers.size() * plan.request_bytes;
    request.size = plan.request_bytes;
    const MutableByteView buffer = memory.subspan(slot * plan.request_bytes, plan.request_bytes);
    return client.add(static_cast<std::size_t>(index % peers.size()), request, slot, buffer);
  };
  for (std::size_t slot = 0; slot < plan.in_flight && next < requests; ++slot) {
    SPATE_TRY(std::ignore, add(slot));
  }
  std::vector<std::size_t> done;
  for (std::uint64_t finished = 0; finished < requests; finished += done.size()) {
    done.clear();
    SPATE_TRY(std::ignore, client.work(done));
    for (const std::size_t slot : done) {
      if (next == requests) break;
      SPATE_TRY(std::ignore, add(slot));
    }
  }
  return {};
}

Result<Rate> run_requests(const RawPeers& peers, const RatePlan& plan) {
  const std::uint64_t body = plan.request_bytes - std::min<std::uint64_t>(plan.request_bytes, sizeof(RawRequest));
  const bool good = body >= sizeof(std::uint64_t) && plan.reply_bytes > 0 && plan.reply_bytes <= RawPeers::kMaxBytes &&
                    body <= RawPeers::kMaxBytes && plan.in_flight > 0 && peers.size() > 0 &&
                    (plan.op == RawRequest::Op::kAnswer || plan.file_bytes >= plan.reply_bytes);
  if (!good) return Error(Errc::kInvalidArgument, "requests and replies of at most 8 MiB, with room for their heads");
  Buffer request(plan.request_bytes);
  Buffer scratch(1U << 20U, Buffer::kPageAlignment);
  std::memset(request.data(), 0, request.size());
  const RawRequest head{plan.op, 0, body, plan.reply_bytes};
  std::memcpy(request.data(), &head, sizeof head);
  std::mt19937_64 random(plan.requests);
  std::vector<pollfd> polled(peers.size());
  std::vector<std::uint64_t> partial(peers.size(), 0);
  for (std::size_t i = 0; i < peers.size(); ++i) polled[i] = {peers.socket(i), POLLIN, 0};
  std::uint64_t sent = 0;
  const auto send_next = [&](std::size_t peer) {
    const std::uint64_t places = plan.file_bytes / plan.reply_bytes;
    const std::uint64_t place = plan.op == RawRequest::Op::kRead ? random() % places * plan.reply_bytes : 0;
    std::memcpy(request.data() + sizeof head, &place, sizeof place);
    ++sent;
    return send_whole(peers.socket(peer), std::as_const(request).view());
  };
  Rate rate;
  const auto begin = Clock::now();
  if (plan.in_flight == 1) {
    while (sent < plan.requests) {
      const std::size_t peer = sent % peers.size();
      const auto asked = Clock::now();
      if (!send_next(peer)) return errno_error(errno, "send of the raw probe");
      int whole = 0;
      while (whole == 0) whole = take_replies(peers.socket(peer), plan.reply_bytes, partial[peer], scratch, 0);
      if (whole < 0) return errno_error(ECONNRESET, "receive of the raw probe");
      rate.latency_us.push_back(seconds_since(asked) * 1e6);
    }
    rate.seconds = seconds_since(begin);
    return rate;
  }
  for (std::size_t i = 0; i < plan.in_flight && sent < plan.requests; ++i) {
    if (!send_next(i % peers.size())) return errno_error(errno, "send of the raw probe");
  }
  for (std::uint64_t done = 0; done < plan.requests;) {
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return errno_error(errno, "poll");
    for (std::size_t i = 0; i < peers.size(); ++i) {
      if (polled[i].revents == 0) continue;
      const int whole = take_replies(peers.socket(i), plan.reply_bytes, partial[i], scratch, MSG_DONTWAIT);
      if (whole < 0) return errno_error(ECONNRESET, "receive of the raw probe");
      done += static_cast<std::uint64_t>(whole);
      for (int k = 0; k < whole && sent < plan.requests; ++k) {
        if (!send_next(i)) return errno_error(errno, "send of the raw probe");
      }
    }
  }
  rate.seconds = seconds_since(begin);
  return rate;
}

}  // namespace spate::measure
