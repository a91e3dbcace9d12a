// SPDX-License-Identifier: Apache-2.0
#include "client/file/file_append.h"

#include <array>
#include <numeric>

#include "client/session/handover_state.h"
#include "job/deadline.h"

namespace spate::client {
namespace {

/// How often an append starts again in a new epoch of the session.
constexpr int kMostTries = 5;

constexpr std::byte kZero{0};

Error waited_too_long(Error error) {
  if (error.code() != Errc::kTimeout) return error;
  return Error(Errc::kTimeout,
               "waiting for the right to append: another client has it, or the meta server does not answer");
}

}  // namespace

job::Task<Result<std::uint64_t>> FileAppend::append(std::span<const ByteView> memory, job::StopToken stop,
                                                    FileGather* gather) {
  Params params;
  params.gather = gather;
  params.memory = memory;
  params.stop = stop;
  auto end = co_await append_in_turn(params);
  co_return end;
}

/// The last byte gets disk space and belongs to the file, but is not written. So SEEK_DATA finds no data there, and
/// bytes that others append in the meantime stay. A truncation could cut such bytes off.
job::Task<Result<void>> FileAppend::extend_by_servers(std::uint64_t size) {
  SPATE_CO_TRY(const std::uint64_t end, co_await data_.size_now(data_.session().limits()));
  if (end >= size) co_return Result<void>();
  auto done = co_await data_.punch(size - 1, 1, Punch::kExtends);
  co_return done;
}

/// If the servers or their local file systems cannot do that, this writes a zero byte, as posix_fallocate(3) does.
job::Task<Result<void>> FileAppend::extend_to(std::uint64_t size) {
  if (!allows(data_.capability().rights(), Rights::kWrite)) co_return Errc::kBadDescriptor;
  if (size == 0) co_return Result<void>();
  auto extended = co_await extend_by_servers(size);
  if (extended || extended.code() != Errc::kNotSupported) co_return extended;
  const std::array<ByteView, 1> zero{ByteView(&kZero, 1)};
  Params params;
  params.memory = zero;
  params.least = size;
  SPATE_CO_TRY(std::ignore, co_await append_in_turn(params));
  co_return Result<void>();
}

job::Task<Result<std::uint64_t>> FileAppend::append_in_turn(Params params) {
  if (!allows(data_.capability().rights(), Rights::kWrite)) co_return Errc::kBadDescriptor;
  if (appended_ == nullptr) appended_ = rights().join(data_.handle());
  const Appends::AppendedPtr file = appended_;
  const Limits limits = data_.session().limits();
  params.request_id = limits.request_id;
  job::DeadlineScope scope(data_.cluster().executor(), limits.deadline, params.stop);
  auto turn = co_await file->turn.acquire(1, scope.token());
  if (!turn) co_return waited_too_long(std::move(turn).error());
  auto end = co_await append_now(file, params);
  co_await rights().done(file);
  co_return end;
}

/// Waits for the right to append, but no longer than for any other request: the holder of the right may be cut off
/// while the meta server is down.
job::Task<Result<void>> FileAppend::right_in_time(Appends::AppendedPtr file, job::StopToken stop) {
  job::DeadlineScope scope(data_.cluster().executor(), data_.session().limits().deadline, stop);
  auto right = co_await rights().take(file, scope.token());
  if (!right) co_return waited_too_long(std::move(right).error());
  co_return Result<void>();
}

/// Call it with this client's turn. `file` is a reference of its own, because the file may be closed in the meantime.
job::Task<Result<std::uint64_t>> FileAppend::append_now(Appends::AppendedPtr file, Params params) {
  Result<std::uint64_t> end = Errc::kSessionFenced;
  for (int tries = 0; tries < kMostTries && must_renew(end.code()); ++tries) {
    SPATE_CO_TRY(std::ignore, co_await right_in_time(file, params.stop));
    const Limits limits = data_.session().limits(params.stop);
    const Capability before = data_.capability().now();
    SPATE_CO_TRY(std::ignore, co_await data_.capability().make_current(limits));
    if (data_.capability().now().mac != before.mac)
      continue;  // takes the right again if the new epoch does not have it
    end = co_await append_once(*file, params);
    if (must_renew(end.code())) {
      SPATE_CO_TRY(std::ignore, co_await data_.capability().renew(limits, before, end.code()));
    }
  }
  co_return end;
}

/// The end of the file, if this client alone has it open for writing, and through this open only. No other client
/// appends, since this one has the right to append. A client that opens the file for writing first recalls the lease
/// (client/attributes/sole_writer_state.h).
std::optional<std::uint64_t> FileAppend::known_end(const Appends::Appended& file) {
  if (file.unsettled || data_.written().uncertain()) return std::nullopt;
  const auto known = data_.cluster().attributes().find_attributes({data_.handle(), {}, 0});
  if (!known || !*known || (*known)->size_known) return std::nullopt;
  return (*known)->size;
}

/// Call it with the right to append, in the epoch of the file's capability.
job::Task<Result<std::uint64_t>> FileAppend::end_of_file(Appends::Appended& file, const Capability& capability,
                                                         job::StopToken stop) {
  if (const auto known = known_end(file)) co_return *known;
  if (data_.cluster().gathered().has(data_.handle())) {
    co_await data_.cluster().gathered().send(data_.handle());
    if (const auto known = known_end(file)) co_return *known;
  }
  // Once it is answered, no request of an older connection is under way any more (docs/consistency.md, "Resends").
  SPATE_CO_TRY(auto states, co_await ask_datafiles(data_.target(capability), data_.all_slots(), false,
                                                   data_.session().limits(stop)));
  file.unsettled = false;
  co_return summarize(data_.distribution(), states).size;
}

/// Call it with the right to append, in the epoch of the file's capability.
job::Task<Result<std::uint64_t>> FileAppend::append_once(Appends::Appended& file, Params params) {
  const Capability capability = data_.capability().now();
  const std::uint64_t size = std::accumulate(params.memory.begin(), params.memory.end(), std::uint64_t{0},
                                             [](std::uint64_t sum, ByteView view) { return sum + view.size(); });
  SPATE_CO_TRY(std::uint64_t end, co_await end_of_file(file, capability, params.stop));
  if (params.least != 0) {
    if (end >= params.least) co_return end;
    end = params.least - 1;
  } else if (data_.session().handover() != nullptr) {
    const rpc::Identity& identity = data_.session().identity();
    end = data_.session().handover()->place_append(
        {0, params.request_id, data_.handle(), end, size, identity.client, identity.epoch});
  }
  if (params.gather != nullptr) {
    SPATE_CO_TRY(const bool gathered, co_await params.gather->gather(end, params.memory.front()));
    if (gathered) co_return end;
  }
  SPATE_CO_TRY(const datatype::Description what, datatype::Description::contiguous(end, size));
  auto written = co_await data_.write_list(what, params.memory, params.stop, capability.session_epoch);
  if (written && params.gather != nullptr) params.gather->wrote_until(end + size);
  if (written) co_return end;
  // Part of the write may still take effect. It must not overwrite data that others append at its place.
  file.unsettled = true;
  auto settled =
      co_await ask_datafiles(data_.target(capability), data_.all_slots(), false, data_.session().limits(params.stop));
  if (settled) file.unsettled = false;
  co_return std::move(written).error();
}

job::Task<void> FileAppend::leave() {
  if (appended_ != nullptr) co_await rights().leave(std::move(appended_));
}

}  // namespace spate::client
