// SPDX-License-Identifier: Apache-2.0
// File: what fsync and close promise (docs/consistency.md, "Durability").
#include <algorithm>
#include <numeric>

#include "client/bypass/bypass.h"
#include "client/file/file_operation.h"

namespace spate::client {

/// Told are losses that came later than those that this open's user knew of when the call began.
Result<void> File::told_of(std::uint64_t before) {
  losses_told_ = std::max(losses_told_, unsynced_->losses());
  unsynced_->tell(losses_told_);
  return losses_told_ == before ? Result<void>() : Errc::kLostWrite;
}

job::Task<Result<void>> File::sync() {
  const std::uint64_t told_before = losses_told_;
  auto turn = co_await unsynced_->turn.acquire(1);
  if (!turn) co_return std::move(turn).error();
  const Limits limits = cluster_.limits();
  auto datafiles = co_await sync_datafiles(limits);
  if (!datafiles) co_return datafiles;
  auto names = co_await sync_names(limits);
  if (!names) co_return names;
  auto told = told_of(told_before);
  if (record_ != nullptr) keep_synced();
  co_return told;
}

job::Task<Result<void>> File::sync_datafiles(Limits limits) {
  const std::vector<std::uint32_t> dirty = unsynced_->take_dirty();
  if (dirty.empty()) co_return Result<void>();
  auto synced = co_await ask_slots(dirty, true, limits);
  if (!synced) {
    unsynced_->put_back(dirty);
    co_return std::move(synced).error();
  }
  unsynced_->synced(*synced);
  co_return Result<void>();
}

/// The file's name and inode. A meta server that was started anew may have lost them, if its machine went down.
job::Task<Result<void>> File::sync_names(Limits limits) {
  const wire::MetaSyncRequest request;
  auto synced = co_await cluster_.ask<wire::MetaSyncReply>(request, limits);
  if (!synced) co_return std::move(synced).error();
  const Incarnation now = cluster_.meta().incarnation();
  if (now == meta_incarnation_) co_return Result<void>();
  wire::GetattrRequest look;
  look.handle = handle_;
  auto found = co_await cluster_.ask<wire::GetattrReply>(look, limits);
  if (found) meta_incarnation_ = now;
  if (found || found.code() != Errc::kStaleHandle) co_return found ? Result<void>() : std::move(found).error();
  co_return Error(Errc::kLostWrite, "the file itself is gone");
}

/// As far as this client knows; sync() asks the servers, this does not (POSIX promises nothing more of a close).
Result<void> File::check_lost() {
  const std::uint64_t told_before = losses_told_;
  unsynced_->check_heard([this](std::uint32_t slot) {
    const auto channel = cluster_.io_channel(layout_.slots[slot].targets.front());
    return channel ? (*channel)->incarnation() : Incarnation();  // none: this process has not heard of the server yet
  });
  return told_of(told_before);
}

void File::leave(bool removed) {
  unsynced_->records().erase(record_);
  cluster_.unsynced().leave(unsynced_, removed);
}

/// Of these slots, without a new capability, which asking does not need. Somebody waits for an open or a close.
job::Task<Result<std::vector<SlotState>>> File::ask_soon(std::vector<std::uint32_t> slots) {
  constexpr Duration kSoon = std::chrono::seconds(1);
  Limits limits = cluster_.limits();
  limits.deadline = std::min(limits.deadline, executor().now() + kSoon);
  const Capability capability = capability_;
  auto states = co_await ask_datafiles(target(capability), slots, false, limits);
  co_return states;
}

job::Task<Result<std::uint64_t>> File::change_sum_now() {
  std::vector<std::uint32_t> slots(layout_.slots.size());
  std::iota(slots.begin(), slots.end(), 0U);
  SPATE_CO_TRY(const std::vector<SlotState> states, co_await ask_soon(std::move(slots)));
  co_return summarize(*distribution_, states).change_sum;
}

/// What this client has written by itself is known to the servers, since it has given its leases back.
job::Task<void> File::learn_data() {
  if (uncertain_ || !allows(rights_, Rights::kWrite) || !opened_in(cluster_.identity().session())) co_return;
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = 0; slot < states_.size(); ++slot) {
    if (wrote_by_itself_ || !states_[slot]) slots.push_back(slot);
  }
  if (slots.empty()) co_return;
  const auto asked = co_await ask_soon(std::move(slots));
  if (!asked) co_return;
  for (const SlotState& s : *asked) states_[s.slot] = s.state;
  wrote_by_itself_ = false;
}

job::Task<Result<Attributes>> File::close(CloseOptions options, UniqueFunction<void()> on_ended) {
  const Limits limits = cluster_.limits();
  co_await bypass_->give_back(limits);
  if (options.learn_data) co_await learn_data();
  wire::CloseRequest request;
  request.handle = handle_;
  request.rights = rights_;
  request.data = summary();
  request.atime = options.atime;
  request.mtime = options.mtime;
  request.mode = options.mode;
  if (!options.atime && !options.mtime && !options.mode) request.atime = read_at_;
  const Result<void> lost = options.unheard ? Result<void>() : check_lost();
  if (appended_ != nullptr) co_await cluster_.appends().leave(std::move(appended_));
  const rpc::SessionEpoch opened_in{capability_.client, capability_.session_epoch};
  if (record_ != nullptr) keep_close(request, limits.request_id);
  auto reply = co_await cluster_.close(std::move(request), opened_in, limits, std::move(on_ended));
  leave(reply && reply->attributes.link_count == 0);
  if (!lost) co_return lost.error();  // whatever else went wrong: nobody is told of it again
  if (!reply) co_return std::move(reply).error();
  co_return reply->attributes;
}

}  // namespace spate::client
