// SPDX-License-Identifier: Apache-2.0
#include "server/meta/locks/lock_table.h"

#include <algorithm>

namespace spate::meta {
namespace {

/// Most owners that a search for a deadlock examines. If there are more, it assumes that waiting is safe.
constexpr std::size_t kMostOwnersSearched = 10000;
constexpr std::size_t kMostNewPieces = 2;  // LockRanges::set

}  // namespace

LockTable::FileKey LockTable::place_of(Handle handle, LockKind kind) {
  switch (kind) {
    case LockKind::kFlock: return {handle, Space::kFlocks};
    case LockKind::kAppend: return {handle, Space::kAppends};
    default: return {handle, Space::kRecords};
  }
}

/// Whether no other owner holds a conflicting lock.
bool LockTable::grantable(const File& file, const LockParams& params) const {
  return std::none_of(file.held.begin(), file.held.end(), [&](const auto& entry) {
    return entry.first != params.owner && entry.second.in_the_way_of(params.range, params.mode);
  });
}

/// Whether the request is grantable, and no earlier request waits for a conflicting lock. An owner that already holds a
/// lock need not wait for earlier requests.
bool LockTable::has_turn(const File& file, const Waiting& waiting) const {
  const LockParams& params = waiting.params;
  if (!grantable(file, params)) return false;
  const auto owner = owners_.find(params.owner);
  if (owner != owners_.end() && !owner->second.held.empty()) return true;
  for (const Waiting& earlier : file.queue) {
    if (earlier.wait == waiting.wait) break;
    const bool other = earlier.params.owner != params.owner;
    if (other && earlier.params.range.overlaps(params.range) && conflict(earlier.params.mode, params.mode))
      return false;
  }
  return true;
}

bool LockTable::fits(const File& file, const LockParams& params) const {
  const auto session = sessions_.find(params.owner.client);
  const std::size_t of_session = session == sessions_.end() ? 0 : session->second.pieces;
  const std::size_t room = std::min(limits_.pieces_of_session - std::min(limits_.pieces_of_session, of_session),
                                    limits_.pieces_of_file - std::min(limits_.pieces_of_file, file.pieces));
  if (room >= kMostNewPieces) return true;
  const auto held = file.held.find(params.owner);
  const LockRanges none;
  const LockRanges& now = held == file.held.end() ? none : held->second;
  return now.pieces_after(params.range, params.mode) <= now.pieces().size() + room;
}

void LockTable::apply(const LockParams& params) {
  const FileKey place = place_of(params.handle, params.owner.kind);
  File& file = files_[place];
  LockRanges& ranges = file.held[params.owner];
  const std::size_t before = ranges.pieces().size();
  ranges.set(params.range, params.mode);
  const std::size_t after = ranges.pieces().size();
  SessionUsage& session = sessions_[params.owner.client];
  session.pieces += after - before;
  file.pieces += after - before;
  pieces_ += after - before;
  Owner& owner = owners_[params.owner];
  if (params.mode != LockMode::kNone) owner.pid = params.pid;
  if (after == 0) {
    file.held.erase(params.owner);
    owner.held.erase(place);
    recalled_.erase({place, params.owner});
  } else if (owner.held.insert(place).second) {
    // The owner no longer waits behind others, wherever else it waits.
    for (const std::uint64_t number : owner.waits) {
      to_serve_.insert(waits_.at({params.owner.client, params.owner.epoch, number}));
    }
  }
  to_serve_.insert(place);
  forget_if_idle(params.owner);
}

void LockTable::forget_if_idle(const LockOwner& owner) {
  const auto found = owners_.find(owner);
  if (found != owners_.end() && found->second.held.empty() && found->second.waits.empty()) owners_.erase(found);
  const auto session = sessions_.find(owner.client);
  if (session != sessions_.end() && session->second.pieces == 0 && session->second.waits == 0) sessions_.erase(session);
}

LockOutcome LockTable::set(const LockParams& params, std::uint64_t wait) {
  const FileKey place = place_of(params.handle, params.owner.kind);
  if (params.mode == LockMode::kNone) {
    const auto file = files_.find(place);
    if (file == files_.end() || !file->second.held.contains(params.owner)) return LockOutcome::kGranted;
    if (!fits(file->second, params)) return LockOutcome::kTooMany;
    apply(params);
    serve();
    return LockOutcome::kGranted;
  }
  File& file = files_[place];
  if (params.owner.kind == LockKind::kFlock && file.held.contains(params.owner) && !grantable(file, params)) {
    LockParams release = params;
    release.mode = LockMode::kNone;
    apply(release);
    serve();
    return set(params, wait);
  }
  LockOutcome outcome = LockOutcome::kGranted;
  const bool turn = wait == 0 ? grantable(file, params) : has_turn(file, {{}, params});
  if (!turn) {
    outcome = wait == 0 ? LockOutcome::kConflict : enqueue(params, wait);
  } else if (!fits(file, params)) {
    outcome = LockOutcome::kTooMany;
  } else {
    apply(params);
  }
  to_serve_.insert(place);
  serve();
  return outcome;
}

LockOutcome LockTable::enqueue(const LockParams& params, std::uint64_t number) {
  const FileKey place = place_of(params.handle, params.owner.kind);
  File& file = files_[place];
  const LockWait wait{params.owner.client, params.owner.epoch, number};
  if (waits_.contains(wait)) return LockOutcome::kQueued;
  SessionUsage& session = sessions_[params.owner.client];
  if (session.waits >= limits_.waits_of_session || file.queue.size() >= limits_.waits_for_file) {
    forget_if_idle(params.owner);
    return LockOutcome::kTooMany;
  }
  if (params.owner.kind == LockKind::kProcess && would_deadlock(params)) {
    forget_if_idle(params.owner);
    return LockOutcome::kDeadlock;
  }
  ++session.waits;
  owners_[params.owner].waits.insert(number);
  waits_.emplace(wait, place);
  file.queue.push_back({wait, params});
  return LockOutcome::kQueued;
}

std::list<LockTable::Waiting>::iterator LockTable::dequeue(File& file, std::list<Waiting>::iterator waiting) {
  const LockWait wait = waiting->wait;
  const LockOwner owner = waiting->params.owner;
  waits_.erase(wait);
  --sessions_.at(owner.client).waits;
  owners_.at(owner).waits.erase(wait.number);
  const auto next = file.queue.erase(waiting);
  forget_if_idle(owner);
  return next;
}

/// Adds the owners whose locks conflict with this request.
void LockTable::add_holders(const LockParams& params, std::vector<LockOwner>& out) const {
  const auto file = files_.find(place_of(params.handle, params.owner.kind));
  if (file == files_.end()) return;
  for (const auto& [owner, ranges] : file->second.held) {
    if (owner != params.owner && ranges.in_the_way_of(params.range, params.mode)) out.push_back(owner);
  }
}

/// Whether the holders of conflicting locks wait, directly or through others, for this owner. Only held locks count: an
/// earlier request in the queue does not block this one for ever (has_turn).
bool LockTable::would_deadlock(const LockParams& params) const {
  std::set<LockOwner> seen;
  std::vector<LockOwner> open;
  add_holders(params, open);
  while (!open.empty() && seen.size() < kMostOwnersSearched) {
    const LockOwner next = open.back();
    open.pop_back();
    if (next == params.owner) return true;
    if (!seen.insert(next).second) continue;
    const auto owner = owners_.find(next);
    if (owner == owners_.end()) continue;
    for (const std::uint64_t number : owner->second.waits) {
      const LockWait wait{next.client, next.epoch, number};
      const File& file = files_.at(waits_.at(wait));
      const auto waiting =
          std::find_if(file.queue.begin(), file.queue.end(), [&](const Waiting& w) { return w.wait == wait; });
      add_holders(waiting->params, open);
    }
  }
  return false;
}

void LockTable::release(Handle handle, const LockOwner& owner) {
  const FileKey place = place_of(handle, owner.kind);
  const auto found = files_.find(place);
  if (found == files_.end()) return;
  File& file = found->second;
  for (auto waiting = file.queue.begin(); waiting != file.queue.end();) {
    waiting = waiting->params.owner == owner ? dequeue(file, waiting) : std::next(waiting);
  }
  if (file.held.contains(owner)) apply({handle, owner, LockMode::kNone, {}, 0});
  to_serve_.insert(place);
  serve();
}

bool LockTable::cancel(const LockWait& wait) {
  const auto found = waits_.find(wait);
  if (found == waits_.end()) return false;
  const FileKey place = found->second;
  File& file = files_.at(place);
  dequeue(file, std::find_if(file.queue.begin(), file.queue.end(), [&](const Waiting& w) { return w.wait == wait; }));
  to_serve_.insert(place);
  serve();
  return true;
}

void LockTable::release_client(ClientId client, std::uint32_t below_epoch) {
  std::vector<std::pair<Handle, LockOwner>> all;
  const LockOwner first{client, 0, LockKind{}, 0};
  for (auto entry = owners_.lower_bound(first); entry != owners_.end() && entry->first.client == client; ++entry) {
    const auto& [owner, state] = *entry;
    if (owner.epoch >= below_epoch) break;
    std::set<FileKey> places = state.held;
    for (const std::uint64_t number : state.waits) places.insert(waits_.at({client, owner.epoch, number}));
    for (const FileKey& place : places) all.emplace_back(place.handle, owner);
  }
  for (const auto& [handle, owner] : all) release(handle, owner);
}

std::optional<LockConflict> LockTable::test(const LockParams& params) const {
  const auto file = files_.find(place_of(params.handle, params.owner.kind));
  if (file == files_.end()) return std::nullopt;
  std::optional<LockConflict> first;
  for (const auto& [owner, ranges] : file->second.held) {
    if (owner == params.owner) continue;
    const auto lock = ranges.in_the_way_of(params.range, params.mode);
    if (lock && (!first || lock->range.first < first->lock.range.first)) first = {owner, owners_.at(owner).pid, *lock};
  }
  return first;
}

/// One pass through the queue. A grant makes another pass needed (apply), since the new lock may be weaker than its
/// owner's earlier one.
void LockTable::serve_once(File& file) {
  for (auto waiting = file.queue.begin(); waiting != file.queue.end();) {
    if (!has_turn(file, *waiting)) {
      ++waiting;
      continue;
    }
    const Waiting granted = *waiting;
    const bool fit = fits(file, granted.params);
    if (fit) apply(granted.params);
    ended_.push_back({granted.wait, fit});
    waiting = dequeue(file, waiting);
  }
}

void LockTable::serve() {
  while (!to_serve_.empty()) {
    const FileKey place = *to_serve_.begin();
    to_serve_.erase(to_serve_.begin());
    const auto found = files_.find(place);
    if (found == files_.end()) continue;
    serve_once(found->second);
    recall(place, found->second);
    if (found->second.empty()) files_.erase(found);
  }
}

void LockTable::recall(const FileKey& place, const File& file) {
  if (place.space != Space::kAppends || file.queue.empty()) return;
  for (const auto& [owner, ranges] : file.held) {
    if (recalled_.insert({place, owner}).second) recalls_.push_back({place.handle, owner});
  }
}

bool LockTable::holds_any(ClientId client) const {
  const auto session = sessions_.find(client);
  return session != sessions_.end() && session->second.pieces > 0;
}

}  // namespace spate::meta
