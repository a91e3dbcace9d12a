// SPDX-License-Identifier: Apache-2.0
#include "flow/storage_reader.h"

#include <algorithm>
#include <cstring>

#include "datatype/measure.h"
#include "flow/extents.h"

namespace spate::flow {
namespace {

/// After this many short reads in a row, of no bytes or not
/// explained by the end of the datafile, the read fails.
constexpr int kMaxShortReads = 4;

trove::BytestreamRequest read_request(const DatafileStream& share, std::span<const Extent> extents,
                                      std::span<const MutableByteView> memory) {
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kRead;
  request.id = share.datafile;
  request.extents = extents;
  request.memory = memory;
  return request;
}

Error short_read() { return Error(Errc::kIoError, "read fewer bytes than the datafile has"); }

}  // namespace

StorageReader::StorageReader(Device& device, const DatafileStream& share)
    : device_(device), share_(share), cursor_(share.what, share.distribution, share.datafile.slot) {}

job::Task<Result<std::uint64_t>> StorageReader::fill(MutableByteView out, job::StopToken stop) {
  const bool ordered = share_.what.ordered();
  std::uint64_t filled = 0;
  while (filled < out.size() && !ended()) {
    bytes_ = cursor_.next_extents({out.size() - filled, kMaxPieces}, extents_);
    if (bytes_ == 0) {
      co_await device_.executor().yield();
      continue;
    }
    const MutableByteView into = out.subspan(filled, bytes_);
    if (!ordered) {
      SPATE_CO_TRY(const std::uint64_t got, co_await read_unordered(into, stop));
      filled += got;
      continue;
    }
    SPATE_CO_TRY(const auto ticket, co_await device_.scheduler().admit(place(), stop));
    const trove::BytestreamRequest request = read_request(share_, extents_, {&into, 1});
    const trove::BytestreamCompletion done = co_await device_.storage().run(request);
    if (done.status != Errc::kOk) co_return done.status;
    stat_ = done.stat;
    has_stat_ = true;
    std::uint64_t got = done.bytes;
    if (got < bytes_ && got < bytes_before_end(extents_, stat_.size)) {
      SPATE_CO_TRY(got, co_await read_rest(into, got, stop));
    }
    filled += got;
    ended_ = got < bytes_;
  }
  co_return filled;
}

/// The store has read less than the datafile's size allows. Either the datafile has grown meanwhile, or the store is at
/// fault. The caller still holds the ticket of the first read.
job::Task<Result<std::uint64_t>> StorageReader::read_rest(MutableByteView out, std::uint64_t got, job::StopToken stop) {
  std::vector<Extent> rest = extents_;
  drop_first(rest, got);
  for (int tries = 0; tries < kMaxShortReads;) {
    if (stop.stopped()) co_return stop.reason();
    const MutableByteView into = out.subspan(got);
    const trove::BytestreamRequest request = read_request(share_, rest, {&into, 1});
    const trove::BytestreamCompletion done = co_await device_.storage().run(request);
    if (done.status != Errc::kOk) co_return done.status;
    stat_ = done.stat;
    got += done.bytes;
    if (got == out.size() || done.bytes >= bytes_before_end(rest, stat_.size)) co_return got;
    drop_first(rest, done.bytes);
    tries = done.bytes == 0 ? tries + 1 : 0;
  }
  co_return short_read();
}

job::Task<Result<std::uint64_t>> StorageReader::read_unordered(MutableByteView out, job::StopToken stop) {
  if (!has_stat_) {
    SPATE_CO_TRY(std::ignore, co_await stat(stop));
    left_ = datatype::present_bytes(share_.what, share_.distribution, share_.datafile.slot, stat_.size);
  }
  const std::uint64_t wanted = std::min(bytes_, left_);
  ended_ = wanted == left_;
  left_ -= wanted;
  if (wanted == 0) co_return wanted;
  keep_first(extents_, wanted);
  SPATE_CO_TRY(const auto ticket, co_await device_.scheduler().admit(place(), stop));
  for (int tries = 0; tries < kMaxShortReads; ++tries) {
    split_at_end(out.first(wanted));
    if (present_.empty()) co_return wanted;
    const trove::BytestreamRequest request = read_request(share_, present_, present_memory_);
    const trove::BytestreamCompletion done = co_await device_.storage().run(request);
    if (done.status != Errc::kOk) co_return done.status;
    std::uint64_t asked = 0;
    for (const Extent& extent : present_) asked += extent.size;
    const bool shrank = done.stat.size < stat_.size;
    // If a datafile has grown, only the old length is read, because later batches must agree with the stream's length.
    if (shrank) stat_ = done.stat;
    if (done.bytes == asked) co_return wanted;
    if (!shrank) break;
  }
  co_return short_read();
}

/// Puts the parts within the datafile into present_, and fills the rest of `out` with zeros.
void StorageReader::split_at_end(MutableByteView out) {
  present_.clear();
  present_memory_.clear();
  for (const Extent& extent : extents_) {
    const std::uint64_t inside = extent.offset >= stat_.size ? 0 : std::min(extent.size, stat_.size - extent.offset);
    if (inside > 0) {
      present_.push_back({extent.offset, inside});
      present_memory_.push_back(out.first(inside));
    }
    std::memset(out.data() + inside, 0, extent.size - inside);
    out = out.subspan(extent.size);
  }
}

job::Task<Result<trove::BytestreamStat>> StorageReader::stat(job::StopToken stop) {
  if (has_stat_) co_return stat_;
  SchedulerRequest place;
  place.client = share_.asker.client;
  place.priority = share_.asker.priority;
  place.datafile = share_.datafile;
  SPATE_CO_TRY(const auto ticket, co_await device_.scheduler().admit(place, stop));
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kStat;
  request.id = share_.datafile;
  const trove::BytestreamCompletion done = co_await device_.storage().run(request);
  if (done.status != Errc::kOk) co_return done.status;
  stat_ = done.stat;
  has_stat_ = true;
  co_return stat_;
}

}  // namespace spate::flow
