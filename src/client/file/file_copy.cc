// SPDX-License-Identifier: Apache-2.0
#include "client/file/file_copy.h"

#include <algorithm>

#include "client/data/share.h"
#include "job/run_all.h"

namespace spate::client {
namespace {

constexpr std::uint32_t kCopyReplyOverhead = 1024;
constexpr std::uint32_t kCopyReplyPerSlot = 64;
/// The size of the buffer for copies through the client.
constexpr std::uint64_t kCopyBuffer = 4U << 20U;
constexpr std::uint32_t kRangesAtOnce = 256;

/// Whether both ranges are divided among their datafiles in the same way, strip for strip. That always holds for two
/// files with one datafile each.
bool same_shape(const Layout& from, const Layout& to, const Distribution& distribution, CopySpan span) {
  if (from.slots.size() != to.slots.size()) return false;
  if (from.slots.size() == 1) return true;
  const std::uint64_t shift = distribution.shift_bytes();
  return from.distribution == to.distribution && from.strip_bytes == to.strip_bytes &&
         span.from % shift == span.to % shift;
}

}  // namespace

/// The parts of the copy, by server. kNotSupported if the datafiles are not on the same servers.
Result<FileCopy::Shares> FileCopy::shares_of(CopySpan span) {
  const Error no(Errc::kNotSupported, "the files' datafiles do not lie side by side");
  if (!same_shape(from_.layout(), to_.layout(), to_.distribution(), span)) return no;
  Shares shares;
  for (std::uint32_t slot = 0; slot < to_.layout().slots.size(); ++slot) {
    const std::uint64_t begin = to_.distribution().physical_size(slot, span.to);
    const std::uint64_t end = to_.distribution().physical_size(slot, span.to + span.size);
    if (begin == end) continue;
    const std::uint64_t logical = to_.distribution().to_logical(slot, begin) - span.to + span.from;
    const Physical from = from_.distribution().to_physical(logical);
    const TargetId target_id = to_.layout().slots[slot].targets.front();
    if (is_group(target_id) || from_.layout().slots[from.slot].targets.front() != target_id) return no;
    SPATE_TRY(rpc::Channel * channel, to_.session().servers().io_channel(target_id));
    auto share = std::find_if(shares.begin(), shares.end(), [&](const ServerCopy& s) { return s.channel == channel; });
    if (share == shares.end()) share = shares.insert(shares.end(), ServerCopy{channel, {}});
    share->pieces.push_back({target_id, from.slot, slot, from.offset, begin, end - begin});
  }
  return shares;
}

job::Task<Result<void>> FileCopy::copy_share(const ServerCopy& share, const CopyRights& rights, Limits limits) {
  wire::DatafileCopyRequest request;
  request.from = from_.handle();
  request.to = to_.handle();
  request.pieces = share.pieces;
  request.from_capability = rights.from;
  request.fs_time = to_.session().fs_time();
  rpc::CallOptions options = limits.call_options();
  options.capability = &rights.to;
  options.reply_room = kCopyReplyOverhead + static_cast<std::uint32_t>(share.pieces.size()) * kCopyReplyPerSlot;
  Bytes body;
  wire::encode_body(request, body);
  SPATE_CO_TRY(auto raw, co_await share.channel->call(wire::Op::kDatafileCopy, body, options));
  auto reply = wire::decode_body<wire::DatafileCopyReply>(raw.body);
  if (!reply) co_return std::move(reply).error().within(share.channel->name());
  if (reply->datafiles.size() != share.pieces.size())
    co_return Error(Errc::kProtocol, share.channel->name() + " answered for other slots than it was asked for");
  std::vector<SlotState> states;
  for (std::size_t i = 0; i < share.pieces.size(); ++i)
    states.push_back(SlotState{share.pieces[i].to_slot, reply->datafiles[i], raw.header.incarnation});
  to_.note_written(states);
  co_return Result<void>();
}

job::Task<Result<void>> FileCopy::copy_by_servers(CopySpan span) {
  const Limits limits = to_.session().limits();
  SPATE_CO_TRY(std::ignore, co_await to_.capability().make_current(limits));
  SPATE_CO_TRY(const Shares shares, shares_of(span));
  Result<void> done;
  for (int tries = 1; tries <= kMostRenewals; ++tries) {
    SPATE_CO_TRY(std::ignore, co_await to_.capability().make_current(limits));
    SPATE_CO_TRY(std::ignore, co_await from_.capability().make_current(limits));
    CopyRights rights;
    SPATE_CO_TRY(rights.to, to_.capability().to_change());
    rights.from = from_.capability().now();
    std::vector<job::Task<Result<void>>> tasks;
    for (const ServerCopy& share : shares) tasks.push_back(copy_share(share, rights, limits));
    done = co_await job::run_all(to_.cluster().executor(), std::move(tasks));
    if (done || !must_renew(done.code())) break;
    SPATE_CO_TRY(std::ignore, co_await to_.capability().renew(limits, rights.to, done.code()));
    SPATE_CO_TRY(std::ignore, co_await from_.capability().renew(limits, rights.from, done.code()));
  }
  if (!done) to_.written().note_uncertain();
  co_return done;
}

/// Copies a range that is data, or may be. Returns how many bytes the source had there.
job::Task<Result<std::uint64_t>> FileCopy::copy_data(CopySpan span) {
  Bytes buffer(static_cast<std::size_t>(std::min(span.size, kCopyBuffer)));
  std::uint64_t done = 0;
  while (done < span.size) {
    const std::uint64_t want = std::min<std::uint64_t>(buffer.size(), span.size - done);
    const MutableByteView room(buffer.data(), static_cast<std::size_t>(want));
    SPATE_CO_TRY(const std::uint64_t got, co_await from_.read(span.from + done, room, {}));
    if (got > 0) {
      const ByteView data(buffer.data(), static_cast<std::size_t>(got));
      SPATE_CO_TRY(std::ignore, co_await to_.write(span.to + done, data, {}));
    }
    done += got;
    if (got == want) continue;
    // The source was truncated in the meantime. Old bytes at the destination must not look like a copy of it.
    SPATE_CO_TRY(std::ignore, co_await to_.punch(span.to + done, span.size - done, Punch::kZeros));
    break;
  }
  co_return done;
}

/// Copies the data through this client. Returns the offset in this file at which the last written data ends, at most
/// the end of the span. The caller sets the size.
job::Task<Result<std::uint64_t>> FileCopy::copy_by_client(CopySpan span) {
  const std::uint64_t end = span.from + span.size;
  std::uint64_t at = span.from;
  std::uint64_t written_to = 0;
  while (at < end) {
    SPATE_CO_TRY(const DataMap map, co_await from_.data_map(at, kRangesAtOnce));
    const std::uint64_t known = std::min(end, std::max(map.known_to(), at + 1));
    while (at < known) {
      const std::uint64_t data = std::clamp(map.next_data(at), at, known);
      const std::uint64_t hole = data < known ? std::clamp(map.next_hole(data), data, known) : known;
      if (data > at) {
        SPATE_CO_TRY(std::ignore, co_await to_.punch(span.to + (at - span.from), data - at, Punch::kZeros));
      }
      const CopySpan part{data, span.to + (data - span.from), hole - data};
      SPATE_CO_TRY(const std::uint64_t copied, co_await copy_data(part));
      if (copied > 0) written_to = part.to + copied;
      if (data == at && hole == at) break;  // the file has become shorter
      at = hole;
    }
    if (map.file_size() <= at) break;
  }
  if (at < end) {
    SPATE_CO_TRY(std::ignore, co_await to_.punch(span.to + (at - span.from), end - at, Punch::kZeros));
  }
  co_return written_to;
}

/// Known under a lease, as for stat(); else its datafiles are asked.
job::Task<Result<std::uint64_t>> FileCopy::source_size() {
  const auto known = from_.cluster().attributes().find_attributes({from_.handle(), {}, 0});
  if (known && *known) co_return (*known)->size;
  auto size = co_await from_.size_now(to_.session().limits());
  co_return size;
}

job::Task<Result<std::uint64_t>> FileCopy::run(CopySpan span) {
  if (!allows(to_.capability().rights(), Rights::kWrite) || !allows(from_.capability().rights(), Rights::kRead))
    co_return Errc::kBadDescriptor;
  if (span.from >= kMaxFileBytes || span.to > kMaxFileBytes) co_return std::uint64_t{0};
  SPATE_CO_TRY(const std::uint64_t end, co_await source_size());
  const std::uint64_t total = span.from < end ? std::min(span.size, end - span.from) : 0;
  if (total > kMaxFileBytes - span.to) co_return Errc::kFileTooBig;
  const std::uint64_t most = std::max<std::uint64_t>(to_.cluster().options().max_transfer_bytes, 1);
  const FileData::Change change(to_);
  std::uint64_t reached = span.to + total;
  for (std::uint64_t done = 0; done < total;) {
    const CopySpan part{span.from + done, span.to + done, std::min(most, total - done)};
    auto copied = co_await copy_by_servers(part);
    if (!copied && copied.code() == Errc::kNotSupported) {
      SPATE_CO_TRY(reached, co_await copy_by_client(part));
    } else if (!copied) {
      co_return std::move(copied).error();
    }
    from_.note_read();
    done += part.size;
  }
  // Done once, and only for a hole at the end, because the extension takes a block.
  if (reached < span.to + total) {
    SPATE_CO_TRY(std::ignore, co_await end_.extend_to(span.to + total));
  }
  co_return total;
}

}  // namespace spate::client
