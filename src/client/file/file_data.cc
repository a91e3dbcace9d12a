// SPDX-License-Identifier: Apache-2.0
#include "client/file/file_data.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace spate::client {
namespace {

/// The part of `views` that holds stream bytes [first, first + size).
template <typename View>
std::vector<View> cut(const datatype::BasicMemoryMap<View>& map, std::uint64_t first, std::uint64_t size) {
  std::vector<View> part;
  map.append(first, size, part);
  return part;
}

}  // namespace

/// Source: mount(8), relatime.
bool read_moves_atime(Cluster& cluster, const Attributes& attributes) {
  constexpr Duration kDay = std::chrono::hours(24);
  const Atime mode = cluster.options().atime;
  if (mode != Atime::kRelative) return mode == Atime::kAlways;
  const Attributes& a = attributes;
  return a.atime <= a.mtime || a.atime <= a.ctime || cluster.session().fs_time().ns - a.atime.ns >= kDay.count();
}

/// A transfer, which may be larger than one request. The spans belong to the caller of read or write.
struct FileData::Operation {
  Kind kind;
  const datatype::Description& what;
  std::span<const MutableByteView> read_memory;
  std::span<const ByteView> write_memory;
  job::StopToken stop;
  std::uint32_t only_epoch = 0;
  Punch how = Punch::kZeros;
  std::optional<WallTime> gathered = {};  // for gathered writes: the time of the last one
};

FileData::Change::Change(FileData& data) : data_(data) {
  if (data_.written_.made_file()) data_.cluster_.attributes().begin_writing(data_.handle_);
}

FileData::Change::~Change() {
  if (!data_.written_.made_file()) return;
  data_.cluster_.attributes().end_writing(data_.handle_, data_.written_.summary(data_.distribution_));
}

FileData::FileData(Cluster& cluster, Params params)
    : cluster_(cluster),
      handle_(params.handle),
      layout_(params.layout),
      distribution_(params.distribution),
      capability_(params.capability),
      written_(params.written),
      bypass_(cluster.session(), cluster.leased_files(),
              {written_.made_file(), written_.made_file() && cluster.gathered().memory() != nullptr}),
      read_due_(read_moves_atime(cluster_, params.attributes)),
      read_(cluster.reads(), handle_) {}

void FileData::note_read() {
  if (read_counts()) read_.note(session().fs_time());
}

void FileData::note_written(const std::vector<SlotState>& slots) {
  read_due_ = cluster_.options().atime != Atime::kNever;  // mtime has changed
  written_.note(slots);
  for (const SlotState& s : slots) {
    const bool there = !s.by_client && s.state.change_counter != 0;
    if (there) bypass_.written_by_server(s.slot);
  }
}

TransferTarget FileData::target(const Capability& capability) {
  return {session(), cluster_.attributes(), handle_, layout_, distribution_, capability, path_, &bypass_};
}

std::vector<std::uint32_t> FileData::all_slots() const {
  std::vector<std::uint32_t> slots(layout_.slots.size());
  std::iota(slots.begin(), slots.end(), 0U);
  return slots;
}

job::Task<Result<std::uint64_t>> FileData::read(std::uint64_t offset, MutableByteView memory, job::StopToken stop) {
  if (offset >= kMaxFileBytes) co_return std::uint64_t{0};
  const std::uint64_t size = std::min<std::uint64_t>(memory.size(), kMaxFileBytes - offset);
  SPATE_CO_TRY(auto what, datatype::Description::contiguous(offset, size));
  const std::array<MutableByteView, 1> views{memory.first(static_cast<std::size_t>(size))};
  auto got = co_await read_list(what, views, stop);
  co_return got;
}

job::Task<Result<void>> FileData::write(std::uint64_t offset, ByteView memory, job::StopToken stop) {
  SPATE_CO_TRY(auto what, datatype::Description::contiguous(offset, memory.size()));
  const std::array<ByteView, 1> views{memory};
  auto written = co_await write_list(what, views, stop);
  co_return written;
}

job::Task<Result<std::uint64_t>> FileData::read_list(const datatype::Description& what,
                                                     std::span<const MutableByteView> memory, job::StopToken stop) {
  if (!allows(capability_.rights(), Rights::kRead)) co_return Errc::kBadDescriptor;
  Operation operation{Kind::kRead, what, memory, {}, stop};
  auto got = co_await run(operation);
  co_return got;
}

job::Task<Result<void>> FileData::write_list(const datatype::Description& what, std::span<const ByteView> memory,
                                             job::StopToken stop, std::uint32_t only_epoch) {
  if (!allows(capability_.rights(), Rights::kWrite)) co_return Errc::kBadDescriptor;
  Operation operation{Kind::kWrite, what, {}, memory, stop, only_epoch};
  SPATE_CO_TRY(std::ignore, co_await run(operation));
  co_return Result<void>();
}

job::Task<Result<void>> FileData::write_gathered(const datatype::Description& what, std::span<const ByteView> memory,
                                                 std::uint32_t epoch, WallTime written, job::StopToken stop) {
  Operation operation{Kind::kWrite, what, {}, memory, stop, epoch, Punch::kZeros, written};
  SPATE_CO_TRY(std::ignore, co_await run(operation));
  co_return Result<void>();
}

job::Task<Result<void>> FileData::punch(std::uint64_t offset, std::uint64_t size, Punch how) {
  if (!allows(capability_.rights(), Rights::kWrite)) co_return Errc::kBadDescriptor;
  SPATE_CO_TRY(auto what, datatype::Description::contiguous(offset, size));
  Operation operation{Kind::kPunch, what, {}, {}, {}, 0, how};
  SPATE_CO_TRY(std::ignore, co_await run(operation));
  co_return Result<void>();
}

job::Task<Result<std::uint64_t>> FileData::run(Operation operation) {
  const std::uint64_t total = operation.what.total_bytes();
  const Options& options = cluster_.options();
  std::uint64_t done = 0;
  if (!operation.gathered && cluster_.gathered().has(handle_)) co_await cluster_.gathered().send(handle_);
  std::optional<Change> change;
  if (operation.kind != Kind::kRead) change.emplace(*this);
  while (done < total) {
    const std::uint64_t size =
        std::min(operation.what.request_bytes(done, options.max_list_pieces), options.max_transfer_bytes);
    Result<datatype::Description> part = operation.what;  // the usual case: the operation has one part
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
      if (operation.kind != Kind::kRead) written_.note_uncertain();
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

/// Sends one request to each server concerned, with one capability.
job::Task<Result<TransferResult>> FileData::run_part(Operation& operation, const datatype::Description& part) {
  const Limits limits = session().limits(operation.stop);
  const bool changes = operation.kind != Kind::kRead;
  const auto wrong_epoch = [&] {
    return operation.only_epoch != 0 && capability_.now().session_epoch != operation.only_epoch;
  };
  for (int tries = 1;; ++tries) {
    if (wrong_epoch()) co_return Errc::kSessionFenced;
    SPATE_CO_TRY(std::ignore, co_await capability_.make_current(limits));
    if (wrong_epoch()) co_return Errc::kSessionFenced;  // the epoch may have changed while this waited
    Capability capability = capability_.now();
    if (changes) {
      SPATE_CO_TRY(capability, capability_.to_change());
    }
    TransferTarget here = target(capability);
    here.written_at = operation.gathered;
    // An append goes to the server: its reply tells the state by which the next append knows the end of the file.
    const bool append = operation.only_epoch != 0;
    if (append && path_ != wire::DataPath::kBypass) here.bypass = nullptr;
    auto result = co_await transfer(here, operation, part, limits);
    if (result || !must_renew(result.code()) || tries == kMostRenewals) co_return result;
    SPATE_CO_TRY(std::ignore, co_await capability_.renew(limits, capability, result.code()));
  }
}

job::Task<Result<TransferResult>> FileData::transfer(const TransferTarget& target, Operation& operation,
                                                     const datatype::Description& part, Limits limits) {
  Result<TransferResult> result = Errc::kInvalidArgument;
  switch (operation.kind) {
    case Kind::kRead: result = co_await client::read(target, part, operation.read_memory, limits); break;
    case Kind::kWrite: result = co_await client::write(target, part, operation.write_memory, limits); break;
    case Kind::kPunch: result = co_await client::punch(target, part, operation.how, limits); break;
  }
  co_return result;
}

job::Task<Result<std::vector<SlotState>>> FileData::ask_slots(std::vector<std::uint32_t> slots, bool sync,
                                                              Limits limits) {
  co_await cluster_.gathered().send(handle_);
  for (int tries = 1;; ++tries) {
    SPATE_CO_TRY(std::ignore, co_await capability_.make_current(limits));
    const Capability capability = capability_.now();
    auto states = co_await ask_datafiles(target(capability), slots, sync, limits);
    if (states || !must_renew(states.code()) || tries == kMostRenewals) co_return states;
    SPATE_CO_TRY(std::ignore, co_await capability_.renew(limits, capability, states.code()));
  }
}

job::Task<Result<std::vector<SlotState>>> FileData::ask_soon(std::vector<std::uint32_t> slots) {
  constexpr Duration kSoon = std::chrono::seconds(1);
  Limits limits = session().limits();
  co_await cluster_.gathered().send(handle_);
  limits.deadline = std::min(limits.deadline, cluster_.executor().now() + kSoon);
  const Capability capability = capability_.now();
  auto states = co_await ask_datafiles(target(capability), slots, false, limits);
  co_return states;
}

bool FileData::may_be_known() const {
  return !capability_.interrupted() && allows(capability_.rights(), Rights::kWrite);
}

job::Task<bool> FileData::learn(std::uint32_t writers) {
  if (!may_be_known() || !capability_.in_current_epoch()) co_return false;
  std::vector<std::uint32_t> slots = writers > 1 ? all_slots() : written_.unknown_slots();
  if (slots.empty()) co_return true;
  const auto asked = co_await ask_soon(std::move(slots));
  if (asked) written_.learn(*asked);
  co_return asked.has_value();
}

job::Task<Result<DataMap>> FileData::data_map(std::uint64_t offset, std::uint32_t max_ranges) {
  const Limits limits = session().limits();
  co_await cluster_.gathered().send(handle_);
  for (int tries = 1;; ++tries) {
    SPATE_CO_TRY(std::ignore, co_await capability_.make_current(limits));
    const Capability capability = capability_.now();
    auto map = co_await ask_data(target(capability), offset, max_ranges, limits);
    if (map || !must_renew(map.code()) || tries == kMostRenewals) co_return map;
    SPATE_CO_TRY(std::ignore, co_await capability_.renew(limits, capability, map.code()));
  }
}

job::Task<Result<std::uint64_t>> FileData::size_now(Limits limits) {
  SPATE_CO_TRY(const std::vector<SlotState> states, co_await ask_slots(all_slots(), false, limits));
  co_return summarize(distribution_, states).size;
}

}  // namespace spate::client
