// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>

#include "client/bypass/bypass.h"
#include "client/file/file_operation.h"
#include "dist/registry.h"

namespace spate::client {
namespace {

std::vector<std::uint32_t> all_slots(const Layout& layout) {
  std::vector<std::uint32_t> slots(layout.slots.size());
  std::iota(slots.begin(), slots.end(), 0U);
  return slots;
}

/// The part of `views` that holds stream bytes [first, first + size).
template <typename View>
std::vector<View> cut(const datatype::BasicMemoryMap<View>& map, std::uint64_t first, std::uint64_t size) {
  std::vector<View> part;
  map.append(first, size, part);
  return part;
}

}  // namespace

Rights rights_of(std::uint8_t open_flags) {
  unsigned rights = 0;
  if ((open_flags & wire::kOpenRead) != 0) rights |= static_cast<unsigned>(Rights::kRead);
  if ((open_flags & wire::kOpenWrite) != 0) rights |= static_cast<unsigned>(Rights::kWrite);
  return static_cast<Rights>(rights);
}

File::File(Cluster& cluster, wire::OpenReply reply, std::uint8_t open_flags)
    : cluster_(cluster),
      handle_(reply.object.attributes.handle),
      rights_(rights_of(open_flags)),
      by_user_((open_flags & wire::kOpenByUser) != 0),
      layout_(std::move(*reply.object.layout)),
      attributes_(reply.object.attributes),
      capability_(reply.capability),
      states_(layout_.slots.size()),
      meta_incarnation_(cluster.meta().incarnation()),
      bypass_(std::make_unique<Bypass>(cluster)),
      unsynced_(cluster.unsynced().join(handle_, static_cast<std::uint32_t>(layout_.slots.size()), reply.created)),
      losses_told_(unsynced_->losses_told()),
      renew_turn_(cluster.executor(), 1) {
  auto made = make_distribution(layout_);
  SPATE_CHECK(made.has_value());  // the decoder has checked the layout
  distribution_ = *std::move(made);
  if (reply.created) {
    for (auto& state : states_) state.emplace();  // nothing is written yet: all zero
  }
  if (reply.truncated) unsynced_->note_all();
  read_due_ = read_is_due();
}

/// Source: mount(8), relatime.
bool File::read_is_due() const {
  constexpr Duration kDay = std::chrono::hours(24);
  if (cluster_.options().atime != Atime::kRelative) return cluster_.options().atime == Atime::kAlways;
  const Attributes& a = attributes_;
  return a.atime <= a.mtime || a.atime <= a.ctime || cluster_.fs_time().ns - a.atime.ns >= kDay.count();
}

void File::note_read() {
  if (read_counts()) read_at_ = cluster_.fs_time();
}

File::~File() = default;

std::uint64_t File::bypassed_bytes() const { return bypass_->bytes_moved(); }

/// `capability`: by value at the caller's, since another operation may renew that of the file meanwhile.
TransferTarget File::target(const Capability& capability) {
  return TransferTarget{cluster_, handle_, layout_, *distribution_, capability, path_, bypass_.get()};
}

job::Task<Result<std::uint64_t>> File::read(std::uint64_t offset, MutableByteView memory, job::StopToken stop) {
  if (offset >= kMaxFileBytes) co_return std::uint64_t{0};
  const std::uint64_t size = std::min<std::uint64_t>(memory.size(), kMaxFileBytes - offset);
  auto what = datatype::Description::contiguous(offset, size);
  if (!what) co_return std::move(what).error();
  const std::array<MutableByteView, 1> views{memory.first(static_cast<std::size_t>(size))};
  auto got = co_await read_list(*what, views, stop);
  co_return got;
}

job::Task<Result<void>> File::write(std::uint64_t offset, ByteView memory, job::StopToken stop) {
  auto what = datatype::Description::contiguous(offset, memory.size());
  if (!what) co_return std::move(what).error();
  const std::array<ByteView, 1> views{memory};
  auto written = co_await write_list(*what, views, stop);
  co_return written;
}

job::Task<Result<std::uint64_t>> File::read_list(const datatype::Description& what,
                                                 std::span<const MutableByteView> memory, job::StopToken stop) {
  if (!allows(rights_, Rights::kRead)) co_return Errc::kBadDescriptor;
  Operation operation{Kind::kRead, what, memory, {}, stop};
  auto got = co_await run(operation);
  co_return got;
}

job::Task<Result<void>> File::write_list(const datatype::Description& what, std::span<const ByteView> memory,
                                         job::StopToken stop) {
  if (!allows(rights_, Rights::kWrite)) co_return Errc::kBadDescriptor;
  Operation operation{Kind::kWrite, what, {}, memory, stop};
  auto written = co_await run(operation);
  if (!written) co_return std::move(written).error();
  co_return Result<void>();
}

job::Task<Result<void>> File::punch(std::uint64_t offset, std::uint64_t size) {
  if (!allows(rights_, Rights::kWrite)) co_return Errc::kBadDescriptor;
  auto what = datatype::Description::contiguous(offset, size);
  if (!what) co_return std::move(what).error();
  Operation operation{Kind::kPunch, *what, {}, {}, {}};
  auto done = co_await run(operation);
  if (!done) co_return std::move(done).error();
  co_return Result<void>();
}

job::Task<Result<void>> File::allocate(std::uint64_t offset, std::uint64_t size) {
  if (!allows(rights_, Rights::kWrite)) co_return Errc::kBadDescriptor;
  auto what = datatype::Description::contiguous(offset, size);
  if (!what) co_return std::move(what).error();
  Operation operation{Kind::kAllocate, *what, {}, {}, {}};
  auto done = co_await run(operation);
  if (!done) co_return std::move(done).error();
  co_return Result<void>();
}

job::Task<Result<std::uint64_t>> File::run(Operation operation) {
  const std::uint64_t total = operation.what.total_bytes();
  const Options& options = cluster_.options();
  std::uint64_t done = 0;
  while (done < total) {
    const std::uint64_t size =
        std::min(operation.what.request_bytes(done, options.max_list_pieces), options.max_transfer_bytes);
    Result<datatype::Description> part = operation.what;  // the usual case: all at once
    Operation piece = operation;
    std::vector<MutableByteView> read_part;
    std::vector<ByteView> write_part;
    if (size < total) {
      part = operation.what.window(done, std::min(size, total - done));
      if (!part) co_return std::move(part).error();
      if (operation.kind == Kind::kRead) {
        read_part = cut(datatype::MemoryMap(operation.read_memory), done, part->total_bytes());
        piece.read_memory = read_part;
      } else if (operation.kind == Kind::kWrite) {
        write_part = cut(datatype::ConstMemoryMap(operation.write_memory), done, part->total_bytes());
        piece.write_memory = write_part;
      }
    }
    auto result = co_await run_part(piece, *part);
    if (!result) {
      if (operation.kind != Kind::kRead) uncertain_ = true;
      co_return std::move(result).error();
    }
    if (operation.kind == Kind::kRead) {
      note_read();
    } else {
      note_written(result->slots);
    }
    done += result->bytes;
    if (result->bytes < part->total_bytes()) break;  // the end of the file
  }
  co_return done;
}

/// One request to each server concerned, under one capability.
job::Task<Result<TransferResult>> File::run_part(Operation& operation, const datatype::Description& part) {
  const Limits limits = cluster_.limits(operation.stop);
  const bool changes = operation.kind != Kind::kRead;
  const auto wrong_epoch = [&] {
    return operation.only_epoch != 0 && capability_.session_epoch != operation.only_epoch;
  };
  for (int tries = 1;; ++tries) {
    if (wrong_epoch()) co_return Errc::kSessionFenced;
    SPATE_CO_TRY(std::ignore, co_await make_current(limits));
    if (wrong_epoch()) co_return Errc::kSessionFenced;  // may have changed
    SPATE_CO_TRY(const Capability capability, capability_to(changes));
    const TransferTarget here = target(capability);
    auto result = co_await transfer(here, operation, part, limits);
    if (result || !must_renew(result.code()) || tries == kMostRenewals) co_return result;
    SPATE_CO_TRY(std::ignore, co_await renew(limits, capability, result.code()));
  }
}

job::Task<Result<TransferResult>> File::transfer(const TransferTarget& target, Operation& operation,
                                                 const datatype::Description& part, Limits limits) {
  Result<TransferResult> result = Errc::kInvalidArgument;
  switch (operation.kind) {
    case Kind::kRead: result = co_await client::read(target, part, operation.read_memory, limits); break;
    case Kind::kWrite: result = co_await client::write(target, part, operation.write_memory, limits); break;
    case Kind::kPunch: result = co_await client::punch(target, part, Punch::kZeros, limits); break;
    case Kind::kAllocate: result = co_await client::punch(target, part, Punch::kSpace, limits); break;
    case Kind::kExtend: result = co_await client::punch(target, part, Punch::kExtends, limits); break;
  }
  co_return result;
}

void File::note_written(const std::vector<SlotState>& slots) {
  unsynced_->note_written(slots);
  read_due_ = cluster_.options().atime != Atime::kNever;  // mtime has moved
  for (const SlotState& s : slots) {
    if (s.by_client) {
      wrote_by_itself_ = true;
      continue;
    }
    // Replies of writes that ran at the same time may come in any order.
    std::optional<wire::DatafileState>& state = states_[s.slot];
    if (!state || wire::not_older(s.state, *state)) state = s.state;
  }
  if (record_ != nullptr) keep_unsynced(slots);
}

job::Task<Result<void>> File::truncate(std::uint64_t size) {
  if (!allows(rights_, Rights::kWrite)) co_return Errc::kInvalidArgument;  // as ftruncate
  wire::TruncateRequest request;
  request.where.start = handle_;
  request.by_open_file = true;
  request.size = size;
  Limits limits = cluster_.limits();
  limits.data_of = handle_;
  Result<wire::TruncateReply> reply = Errc::kBadDescriptor;
  for (int tries = 1; tries <= kMostRenewals && reply.code() == Errc::kBadDescriptor; ++tries) {
    SPATE_CO_TRY(std::ignore, co_await make_current(limits));
    reply = co_await cluster_.change<wire::TruncateReply>(request, limits);
    if (opened_in(cluster_.identity().session())) break;  // else it is not open in the session that has refused
  }
  if (!reply) {
    uncertain_ = true;
    if (reply.code() == Errc::kBadDescriptor) co_return Error(Errc::kSessionFenced, "its session ended meanwhile");
    co_return std::move(reply).error();
  }
  for (auto& state : states_) state.reset();  // the meta server knows better now
  unsynced_->note_all();
  co_return Result<void>();
}

job::Task<Result<Attributes>> File::stat() {
  wire::GetattrRequest request;
  request.handle = handle_;
  const Limits limits = cluster_.limits();
  auto reply = co_await cluster_.ask<wire::GetattrReply>(request, limits);
  if (!reply) co_return std::move(reply).error();
  auto complete = co_await complete_attributes(cluster_, reply->attributes, layout_, limits);
  if (complete && read_at_) complete->atime = std::max(complete->atime, *read_at_);  // told with the close
  co_return complete;
}

std::optional<wire::DataSummary> File::summary() const {
  // Of a file that this open has made, the state is known before the first write: there is none.
  if (uncertain_ || wrote_by_itself_ || !allows(rights_, Rights::kWrite)) return std::nullopt;
  std::vector<SlotState> states;
  for (std::uint32_t slot = 0; slot < states_.size(); ++slot) {
    if (!states_[slot]) return std::nullopt;
    states.push_back(SlotState{slot, *states_[slot], {}});
  }
  return summarize(*distribution_, states);
}

job::Task<Result<Attributes>> complete_attributes(Cluster& cluster, Attributes attributes, const Layout& layout,
                                                  Limits limits) {
  if (attributes.type != FileType::kRegular || attributes.size_known) co_return attributes;
  auto distribution = make_distribution(layout);
  if (!distribution) co_return std::move(distribution).error();
  const Capability none;
  const TransferTarget target{cluster, attributes.handle, layout, **distribution, none};
  const auto slots = all_slots(layout);
  auto states = co_await ask_datafiles(target, slots, false, limits);
  if (!states) co_return std::move(states).error();
  const wire::DataSummary data = summarize(**distribution, *states);
  attributes.size = data.size;
  attributes.allocated_bytes = data.allocated_bytes;
  if (data.change_sum != attributes.change_sum) {  // written since mtime was determined or set
    attributes.mtime = std::max(attributes.mtime, data.mtime);
    attributes.ctime = std::max(attributes.ctime, data.mtime);
    attributes.change_sum = data.change_sum;
  }
  co_return attributes;
}

wire::DataSummary summarize(const Distribution& distribution, std::span<const SlotState> states) {
  wire::DataSummary summary;
  std::vector<std::uint64_t> sizes(distribution.slot_count(), 0);
  for (const SlotState& s : states) {
    sizes[s.slot] = s.state.size;
    summary.allocated_bytes += s.state.allocated_bytes;
    summary.mtime = std::max(summary.mtime, s.state.mtime);
    summary.change_sum += s.state.change_counter;
  }
  summary.size = distribution.logical_size(sizes);
  return summary;
}

}  // namespace spate::client
