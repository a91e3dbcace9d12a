// SPDX-License-Identifier: Apache-2.0
#include "preload/broker_link.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <vector>

#include "base/local_socket.h"
#include "preload/broker/channel.h"
#include "preload/front_link.h"
#include "preload/start_broker.h"

namespace spate::preload {
namespace {

/// A wait for a lock is divided into pieces, with a look at pending signals in between, because the program that holds
/// the lock may never end.
constexpr int kPieceMs = 50;
constexpr int kConnectTries = 200;
constexpr useconds_t kConnectPauseUs = 5000;
constexpr int kAskTries = 3;
constexpr std::size_t kMostIdle = 4;  // connections kept for the next question

struct Links {
  std::mutex mutex;
  std::map<std::uint64_t, std::vector<UniqueFd>> idle;
};

Links*& links() {
  static Links* all = new Links;
  return all;
}

UniqueFd take_idle(std::uint64_t broker) {
  Links& all = *links();
  const std::lock_guard lock(all.mutex);
  auto& idle = all.idle[broker];
  if (idle.empty()) return {};
  UniqueFd taken = std::move(idle.back());
  idle.pop_back();
  return taken;
}

void give_back(std::uint64_t broker, UniqueFd socket) {
  Links& all = *links();
  const std::lock_guard lock(all.mutex);
  auto& idle = all.idle[broker];
  if (idle.size() < kMostIdle) idle.push_back(std::move(socket));
}

Result<UniqueFd> connect_to(const Question& question) {
  SPATE_TRY(const BrokerPlace own, question.mount.broker());
  for (int i = 0; i < kConnectTries; ++i) {
    auto socket = connect_to_user(::geteuid(), broker_name(question.broker));
    if (socket) return socket;
    if (socket.code() != Errc::kNotFound) return Error(Errc::kNoLocks, socket.error().message());
    if (own.id != question.broker) return Error(Errc::kNoLocks, "the process that held the file's locks has ended");
    SPATE_TRY(std::ignore, start_broker(own));
    if (i > 0) ::usleep(kConnectPauseUs);
  }
  return Error(Errc::kNoLocks, "spate-broker does not listen");
}

/// Waits until there is something to receive. A signal ends the wait at the broker, which then answers.
void wait_for_answer(int socket, bool interruptible) {
  bool cancelled = false;
  for (;;) {
    pollfd look{socket, POLLIN, 0};
    if (::poll(&look, 1, interruptible && !cancelled ? kPieceMs : -1) > 0) return;
    if (!interruptible || cancelled || interruption() == 0) continue;
    BrokerRequest cancel;
    cancel.word = BrokerOp::kCancel;
    std::ignore = send_packet(socket, packet_of(cancel), -1);
    cancelled = true;
  }
}

Result<BrokerReply> ask_once(const Question& question) {
  UniqueFd socket = take_idle(question.broker);
  if (!socket) {
    SPATE_TRY(socket, connect_to(question));
  }
  SPATE_TRY(std::ignore, send_packet(socket.get(), packet_of(question.request), question.memfd));
  wait_for_answer(socket.get(), question.request.word == BrokerOp::kLock && question.request.wait);
  SPATE_TRY(const Packet packet, receive_packet(socket.get(), true));
  SPATE_TRY(BrokerReply reply, wire::decode_body<BrokerReply>(packet.body));
  give_back(question.broker, std::move(socket));
  return reply;
}

void tell_once(const Error& error) {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  const std::string line = "spate: locks and files that outlive a program need spate-broker: " + error.message() + "\n";
  raw(SYS_write, 2, line.data(), line.size());
}

}  // namespace

Result<BrokerReply> ask_broker(const Question& question) {
  Error last(Errc::kNoLocks, "spate-broker ended");
  for (int i = 0; i < kAskTries; ++i) {
    auto reply = ask_once(question);
    if (reply && reply->error != Errc::kOk) return Error(reply->error);
    if (reply) return reply;
    if (reply.code() != Errc::kConnectionLost) last = reply.error();
    // The broker has just ended, perhaps because it had nothing to do. Ask its successor.
    if (reply.code() != Errc::kConnectionLost) break;
  }
  tell_once(last);
  return Error(Errc::kNoLocks, last.message());
}

/// A thread of the parent may have held the lock and been about to change the data, so neither is used again.
/// notice_fork() has closed the sockets.
void forget_broker_links() { links() = new Links; }

Result<std::uint64_t> broker_of(Description& description) {
  SPATE_TRY(const BrokerPlace own, description.mount().broker());
  std::uint64_t known = 0;
  return description.state()->broker.compare_exchange_strong(known, own.id) ? own.id : known;
}

Result<BrokerReply> ask_about(Description& description, int descriptor, const BrokerRequest& request) {
  SPATE_TRY(const std::uint64_t broker, broker_of(description));
  if (descriptor >= 0) description.state()->kept.fetch_or(SharedState::kKnown);
  const Question question{description.mount(), broker, request, descriptor};
  return ask_broker(question);
}

}  // namespace spate::preload
