// SPDX-License-Identifier: Apache-2.0
#include "client/gathered_writes.h"

#include <algorithm>

#include "client/attributes/attribute_cache.h"
#include "client/session/session.h"
#include "client/space.h"
#include "job/deadline.h"
#include "log/fields.h"
#include "log/log.h"
#include "model/defect.h"

namespace spate::client {
namespace {

/// The sending begins after half of the second that docs/consistency.md promises.
constexpr Duration kAge = std::chrono::milliseconds(500);
constexpr Duration kShortestSleep = std::chrono::milliseconds(50);
/// Nothing is gathered for a file system in which a target has less room than this and all the memory.
constexpr std::uint64_t kRoomBytes = std::uint64_t{256} << 20U;
constexpr Duration kRoomAge = std::chrono::seconds(1);      // when to ask for the room again
constexpr Duration kRoomGoodFor = std::chrono::seconds(5);  // how long an answer is believed
constexpr Duration kRoomTimeout = std::chrono::seconds(1);

bool has_room_for(const SpaceUse& use, std::uint64_t bytes) {
  const auto good = [bytes](const SpaceUse::Server& server) {
    const auto fits = [bytes](const wire::TargetSpace& target) { return target.free_bytes >= bytes; };
    return server.answered && std::all_of(server.targets.begin(), server.targets.end(), fits);
  };
  return std::all_of(use.servers.begin(), use.servers.end(), good);
}

}  // namespace

GatheredWrites::GatheredWrites(Session& session, AttributeCache& attributes, GatherMemory* memory)
    : session_(session),
      attributes_(attributes),
      memory_(memory),
      inherited_(memory == nullptr ? 0 : memory->inherited().size()),
      sent_(session.executor()),
      gate_(session.executor()) {}

void GatheredWrites::join(Handle handle, FilePtr file) { files_[handle] = std::move(file); }

void GatheredWrites::leave(Handle handle) { files_.erase(handle); }

bool GatheredWrites::has(Handle handle) const {
  const auto found = files_.find(handle);
  return found != files_.end() && found->second->unsent();
}

bool GatheredWrites::has_room() {
  if (ended_) return false;
  const MonoTime now = session_.executor().now();
  const bool old = !room_asked_ || now - *room_asked_ >= kRoomAge;
  if (old && !asking_) {
    asking_ = true;
    if (!job::spawn(gate_, ask_for_room())) asking_ = false;
  }
  return now < room_until_.load(std::memory_order_relaxed);
}

bool GatheredWrites::room_is_known() {
  if (ended_.load(std::memory_order_relaxed)) return false;
  const MonoTime now = session_.executor().clock().now();
  if (now >= room_ask_at_.load(std::memory_order_relaxed) && !to_ask_.exchange(true)) {
    session_.executor().post([this] {
      std::ignore = has_room();
      to_ask_ = false;
    });
  }
  return now < room_until_.load(std::memory_order_relaxed);
}

job::Task<void> GatheredWrites::ask_for_room() {
  co_await session_.executor().yield();  // the limits of the call that needs to know belong to that call
  const MonoTime asked = session_.executor().now();
  Limits limits = session_.limits(stopping_);
  limits.deadline = asked + kRoomTimeout;
  const auto use = co_await space_use(session_, limits, limits);
  const bool room = use && has_room_for(*use, kRoomBytes + memory_->pieces() * GatherMemory::kPieceBytes);
  const bool gathers = (session_.meta().features() & wire::kFeatureGathers) != 0;
  room_until_ = room && gathers ? asked + kRoomGoodFor : MonoTime();
  room_ask_at_ = asked + kRoomAge;
  room_asked_ = asked;
  asking_ = false;
}

void GatheredWrites::begun() {
  if (watching_) return;
  watching_ = true;
  if (!job::spawn(gate_, watch())) watching_ = false;
}

/// Sends what is old. Ends when nothing is left.
job::Task<void> GatheredWrites::watch() {
  while (!none_unsent() && !stopping_.stopped()) {
    MonoTime next = session_.executor().now() + kAge;
    for (const auto& [handle, file] : files_) {
      if (const auto since = file->since()) next = std::min(next, *since + kAge);
    }
    const Duration left = std::max<Duration>(next - session_.executor().now(), kShortestSleep);
    std::ignore = co_await session_.executor().sleep(left, stopping_);
    send_old();
  }
  watching_ = false;
}

void GatheredWrites::send_old() {
  const MonoTime now = session_.executor().now();
  for (const FilePtr& file : unsent(false)) {
    const auto since = file->since();
    if (since && now - *since >= kAge) std::ignore = job::spawn(gate_, send_file(file));
  }
}

job::Task<void> GatheredWrites::send_file(FilePtr file) {
  co_await file->send();
  sent_.set();
}

job::Task<void> GatheredWrites::send(Handle handle) {
  const auto found = files_.find(handle);
  if (found == files_.end()) co_return;
  const FilePtr file = found->second;  // may leave meanwhile
  co_await file->send();
}

void GatheredWrites::send_soon(Handle handle) {
  const auto found = files_.find(handle);
  if (found != files_.end()) std::ignore = job::spawn(gate_, send_file(found->second));
}

job::Task<void> GatheredWrites::send_all() {
  for (const FilePtr& file : unsent(false)) std::ignore = job::spawn(gate_, send_file(file));
  for (const FilePtr& file : unsent(false)) co_await file->send();
}

job::Task<bool> GatheredWrites::send_all_within(Duration limit) {
  for (const FilePtr& file : unsent(false)) std::ignore = job::spawn(gate_, send_file(file));
  job::DeadlineScope scope(session_.executor(), session_.executor().now() + limit, stopping_);
  while (!none_unsent()) {
    sent_.reset();
    const auto waited = co_await sent_.wait(scope.token());
    if (!waited) break;
  }
  co_return none_unsent();
}

void GatheredWrites::lose_all(const Error& why) {
  for (const FilePtr& file : unsent(false)) file->lose(why);
}

void GatheredWrites::note_loss(const GatherMemory::Piece& piece, const Error& error) {
  memory_->note_loss(piece);
  SPATE_LOG("client", error, "gathered writes are lost {} error={}", GatherMemory::text(piece), error);
}

std::vector<GatheredWrites::FilePtr> GatheredWrites::unsent(bool only_revoked) const {
  std::vector<FilePtr> files;
  for (const auto& [handle, file] : files_) {
    if (file->unsent() && !(only_revoked && attributes_.writes_alone(handle))) files.push_back(file);
  }
  return files;
}

bool GatheredWrites::none_unsent() const { return unsent(false).empty(); }

job::Task<bool> GatheredWrites::send_revoked(Duration limit) {
  if (planted(Defect::kEarlyGiveBack)) co_return true;
  const auto done = [this] { return inherited_ == 0 && unsent(true).empty(); };
  for (const FilePtr& file : unsent(true)) std::ignore = job::spawn(gate_, send_file(file));
  if (done()) co_return true;
  job::DeadlineScope scope(session_.executor(), session_.executor().now() + limit, stopping_);
  while (!done()) {
    sent_.reset();
    const auto waited = co_await sent_.wait(scope.token());
    if (!waited) co_return false;
  }
  co_return true;
}

job::Task<bool> GatheredWrites::none_inherited(Duration limit) {
  job::DeadlineScope scope(session_.executor(), session_.executor().now() + limit, stopping_);
  while (inherited_ > 0) {
    sent_.reset();
    const auto waited = co_await sent_.wait(scope.token());
    if (!waited) co_return false;
  }
  co_return true;
}

void GatheredWrites::taken_over() {
  --inherited_;
  sent_.set();
}

job::Task<void> GatheredWrites::stop() { co_await gate_.close(); }

}  // namespace spate::client
