// SPDX-License-Identifier: Apache-2.0
#include "client/cached_opens.h"

#include <utility>

#include "client/session/handover_state.h"
#include "log/log.h"
#include "model/defect.h"

namespace spate::client {
namespace {

// Guesses: how many opens the meta server should keep for
// one client, and for how long after a program's last close.
constexpr std::size_t kMost = 4096;
constexpr Duration kLongestIdle = std::chrono::seconds(60);
constexpr Duration kLookInterval = std::chrono::seconds(2);
/// A kept capability must be valid for at least this time when a new open takes it over.
constexpr Duration kLeastLife = std::chrono::minutes(5);

}  // namespace

CachedOpens::CachedOpens(Session& session, AttributeCache& attributes, Close close)
    : session_(session), attributes_(attributes), close_(std::move(close)), gate_(session.executor()) {}

bool CachedOpens::can_be_kept(std::uint8_t open_flags) {
  return (open_flags & wire::kOpenRead) != 0 && (open_flags & ~(wire::kOpenRead | wire::kOpenExecute)) == 0;
}

/// Whether the session in which the file is open continues, and the capability is valid for some time.
bool CachedOpens::is_good(const CachedOpen& open) const {
  const rpc::SessionEpoch opened_in{open.capability.client, open.capability.session_epoch};
  return opened_in == session_.identity().session() && open.meta == session_.meta().incarnation() &&
         open.capability.expiry.ns - session_.fs_time().ns > kLeastLife.count();
}

bool CachedOpens::keep(CachedOpen& open) {
  if (gate_.closed() || stopping_.stopped() || !is_good(open)) return false;
  // Without a lease nothing would tell this client that the file is to be removed, or that it may no longer be read.
  const auto now = attributes_.find_attributes({open.handle, {}, 0});
  if (!now || !*now || !(*now)->size_known || (*now)->version != open.version) return false;
  if (idle_.size() >= kMost) close_soon(remove(idle_.begin()));
  idle_.push_back({std::move(open), session_.executor().now(), true});
  places_.emplace(idle_.back().open.handle, std::prev(idle_.end()));
  size_ = idle_.size();
  if (!watching_) watching_ = job::spawn(gate_, close_outlived());
  return true;
}

std::optional<CachedOpens::Place> CachedOpens::find(Handle file, std::uint8_t open_flags) const {
  const auto [begin, end] = places_.equal_range(file);
  for (auto at = begin; at != end; ++at) {
    if (at->second->open.open_flags == open_flags) return at->second;
  }
  return std::nullopt;
}

CachedOpens::CachedOpen CachedOpens::remove(Place place) {
  const auto [begin, end] = places_.equal_range(place->open.handle);
  for (auto at = begin; at != end; ++at) {
    if (at->second != place) continue;
    places_.erase(at);
    break;
  }
  CachedOpen open = std::move(place->open);
  idle_.erase(place);
  size_ = idle_.size();
  return open;
}

/// The attributes under the lease show whether anything has changed since the server judged the open: a change of mode,
/// owner or access list makes a new version. They also are the server's answer, except for a file that is being
/// written.
std::optional<wire::OpenReply> CachedOpens::take(const wire::NamePath& where, std::uint8_t open_flags) {
  if (idle_.empty() || !can_be_kept(open_flags)) return std::nullopt;
  const auto there = attributes_.find_attributes(where);
  if (!there || !*there || !(*there)->size_known) return std::nullopt;
  const auto place = find((*there)->handle, open_flags);
  if (!place) return std::nullopt;
  auto now = attributes_.find({(*there)->handle, {}, 0});
  if (!now || !*now || !(*place)->trusted || !is_good((*place)->open)) return std::nullopt;
  if ((*now)->attributes.version != (*place)->open.version && !planted(Defect::kOpenAfterChange)) return std::nullopt;
  CachedOpen open = remove(*place);
  if (open.on_ended) open.on_ended();
  wire::OpenReply reply;
  reply.capability = open.capability;
  reply.object = **std::move(now);
  taken_.fetch_add(1, std::memory_order_relaxed);
  return reply;
}

void CachedOpens::changed(Handle file) {
  if (planted(Defect::kOpenAfterChange)) return;
  for (auto at = places_.find(file); at != places_.end(); at = places_.find(file)) close_soon(remove(at->second));
}

void CachedOpens::distrust_all() {
  for (Idle& idle : idle_) idle.trusted = false;
}

/// Nobody waits for this close. It is repeated until it is answered.
job::Task<void> CachedOpens::close(CachedOpen open, Limits limits) {
  wire::CloseRequest request;
  request.handle = open.handle;
  request.rights = Rights::kRead;
  limits.request_id = open.request_id;
  const rpc::SessionEpoch opened_in{open.capability.client, open.capability.session_epoch};
  UniqueFunction<void()> on_ended = [ended = std::move(open.on_ended), id = open.request_id,
                                     handover = session_.handover()]() mutable {
    if (ended) ended();
    if (handover != nullptr && id != 0) handover->call_answered(id);  // the program no longer needs the answer
  };
  const Handle handle = open.handle;
  wire::CloseWritersRequest one{std::move(request), 1};
  const auto closed = co_await close_(std::move(one), opened_in, limits, std::move(on_ended));
  if (!closed && !session_ended(closed.code()) && closed.code() != Errc::kBadDescriptor)
    SPATE_LOG("client", debug, "an open that was kept is not closed handle={} error={}", handle.value,
              closed.error().message());
}

/// If the close cannot begin, the open ends with the session, which will end soon.
void CachedOpens::close_soon(CachedOpen open) {
  std::ignore = job::spawn(gate_, close(std::move(open), session_.limits(stopping_)));
}

std::vector<CachedOpens::CachedOpen> CachedOpens::remove_outlived() {
  const MonoTime now = session_.executor().now();
  std::vector<CachedOpen> outlived;
  for (Place at = idle_.begin(); at != idle_.end();) {
    const Place place = at++;
    const bool of_use = place->trusted && now - place->since < kLongestIdle && is_good(place->open) &&
                        attributes_.has_lease(place->open.handle);
    if (!of_use) outlived.push_back(remove(place));
  }
  return outlived;
}

/// Closes outlived opens one after the other, so that other requests come in between.
job::Task<void> CachedOpens::close_outlived() {
  while (!idle_.empty() && !stopping_.stopped()) {
    std::ignore = co_await session_.executor().sleep(kLookInterval, stopping_);
    std::vector<CachedOpen> outlived = remove_outlived();
    for (CachedOpen& open : outlived) {
      const Limits limits = session_.limits(stopping_);
      co_await close(std::move(open), limits);
    }
  }
  watching_ = false;
}

job::Task<void> CachedOpens::stop(Limits limits) {
  stopping_.request_stop();
  while (!idle_.empty()) {
    const Limits own = limits;
    if (!job::spawn(gate_, close(remove(idle_.begin()), own))) break;
  }
  co_await gate_.close();
}

}  // namespace spate::client
