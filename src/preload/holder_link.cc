// SPDX-License-Identifier: Apache-2.0
#include "preload/holder_link.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <vector>

#include "base/local_socket.h"
#include "preload/front_link.h"
#include "preload/holder/channel.h"
#include "preload/start_holder.h"

namespace spate::preload {
namespace {

/// A wait for a lock is cut into pieces, between which signals are looked at: a program may be waited for that never
/// ends.
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

UniqueFd take_idle(std::uint64_t holder) {
  Links& all = *links();
  const std::lock_guard lock(all.mutex);
  auto& idle = all.idle[holder];
  if (idle.empty()) return {};
  UniqueFd taken = std::move(idle.back());
  idle.pop_back();
  return taken;
}

void give_back(std::uint64_t holder, UniqueFd socket) {
  Links& all = *links();
  const std::lock_guard lock(all.mutex);
  auto& idle = all.idle[holder];
  if (idle.size() < kMostIdle) idle.push_back(std::move(socket));
}

Result<UniqueFd> connect_to(const Question& question) {
  SPATE_TRY(const HolderPlace own, question.mount.holder());
  for (int i = 0; i < kConnectTries; ++i) {
    auto socket = connect_to_user(::geteuid(), holder_name(question.holder));
    if (socket) return socket;
    if (socket.code() != Errc::kNotFound) return Error(Errc::kNoLocks, socket.error().message());
    if (own.id != question.holder) return Error(Errc::kNoLocks, "who held the file's locks has ended");
    SPATE_TRY(std::ignore, start_holder(own));
    if (i > 0) ::usleep(kConnectPauseUs);
  }
  return Error(Errc::kNoLocks, "spate-holder does not listen");
}

/// Until there is something to receive. A signal that comes ends the wait at the holder, which then answers.
void wait_for_answer(int socket, bool interruptible) {
  bool cancelled = false;
  for (;;) {
    pollfd look{socket, POLLIN, 0};
    if (::poll(&look, 1, interruptible && !cancelled ? kPieceMs : -1) > 0) return;
    if (!interruptible || cancelled || interruption() == 0) continue;
    HoldRequest cancel;
    cancel.word = HoldWord::kCancel;
    std::ignore = send_packet(socket, packet_of(cancel), -1);
    cancelled = true;
  }
}

Result<HoldReply> ask_once(const Question& question) {
  UniqueFd socket = take_idle(question.holder);
  if (!socket) {
    SPATE_TRY(socket, connect_to(question));
  }
  SPATE_TRY(std::ignore, send_packet(socket.get(), packet_of(question.request), question.memfd));
  wait_for_answer(socket.get(), question.request.word == HoldWord::kLock && question.request.wait);
  SPATE_TRY(const Packet packet, receive_packet(socket.get(), true));
  SPATE_TRY(HoldReply reply, wire::decode_body<HoldReply>(packet.body));
  give_back(question.holder, std::move(socket));
  return reply;
}

void tell_once(const Error& error) {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  const std::string line =
      "spate: locks and files that other programs go on with need spate-holder: " + error.message() + "\n";
  raw(SYS_write, 2, line.data(), line.size());
}

}  // namespace

Result<HoldReply> ask_holder(const Question& question) {
  Error last(Errc::kNoLocks, "spate-holder ended");
  for (int i = 0; i < kAskTries; ++i) {
    auto reply = ask_once(question);
    if (reply && reply->error != Errc::kOk) return Error(reply->error);
    if (reply) return reply;
    if (reply.code() != Errc::kConnectionLost) last = reply.error();
    if (reply.code() != Errc::kConnectionLost) break;  // else it has just ended, perhaps because it had nothing to do
  }
  tell_once(last);
  return Error(Errc::kNoLocks, last.message());
}

/// A thread of the parent may have held the lock, and been about to change what it guards: that is not looked at. Its
/// sockets are closed already, see notice_fork().
void forget_holder_links() { links() = new Links; }

}  // namespace spate::preload
