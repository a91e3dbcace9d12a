// SPDX-License-Identifier: Apache-2.0
#include "server/io/paths.h"

#include <algorithm>

#include "datatype/slot_cursor.h"
#include "flow/extents.h"
#include "log/fields.h"
#include "log/log.h"
#include "server/io/peer_memory.h"

namespace spate::io {
namespace {

/// A large read counts as cached if this part of its first pages is in the cache. Pages that are being read ahead or
/// evicted are no reason to go through the cache.
constexpr std::uint64_t kCachedShare = 2;  // 1/2. Guess

/// Other coroutines run between two batches of a stream of more blocks. Guess.
constexpr std::uint64_t kLongStream = 4096;

struct Beginning {
  std::vector<Extent> extents;  // of the first message
  std::uint64_t bytes = 0;
};

Beginning beginning_of(const StreamParams& params, std::uint32_t slot) {
  Beginning first;
  datatype::SlotCursor cursor(params.what, params.distribution, slot);
  first.bytes = cursor.next_extents({params.unit_bytes, flow::kMaxPieces}, first.extents);
  return first;
}

/// The stream as one range of the datafile, if it is one. A stream of many blocks is examined over several turns.
job::Task<std::optional<Extent>> one_run(job::Executor& executor, const StreamParams& params, std::uint32_t slot) {
  const bool is_long = params.what.blocks() > kLongStream;
  if (is_long) co_await executor.yield();
  datatype::SlotCursor cursor(params.what, params.distribution, slot);
  std::vector<Extent> extents;
  std::optional<Extent> run;
  while (!cursor.done()) {
    if (is_long) co_await executor.yield();
    if (cursor.next_extents({~0ULL, 2}, extents) == 0) {
      if (cursor.done()) break;
      co_return std::nullopt;  // too many of its pieces lie elsewhere to walk them all
    }
    if (extents.size() > 1 || (run && run->offset + run->size != extents.front().offset)) co_return std::nullopt;
    run = Extent{run ? run->offset : extents.front().offset, (run ? run->size : 0) + extents.front().size};
  }
  co_return run;
}

job::Task<Result<std::optional<bool>>> cache_state(ResolvedSlot& slot, const Beginning& first) {
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kProbeCache;
  request.id = slot.id;
  request.extents = first.extents;
  const trove::BytestreamCompletion done = co_await slot.target->device.storage().run(request);
  std::optional<bool> cached;
  if (done.status == Errc::kOk) cached = done.bytes * kCachedShare >= first.bytes;
  if (done.status != Errc::kOk && done.status != Errc::kNotSupported) co_return done.status;
  co_return cached;
}

}  // namespace

job::Task<Result<ChosenPath>> path_for(Parts& parts, ResolvedSlot& slot, const StreamParams& params,
                                       trove::BytestreamStat stat, bool has_descriptor) {
  const Beginning first = beginning_of(params, slot.id.slot);
  const flow::PolicyOptions& policy = parts.options.policy;
  flow::PathFacts facts;
  facts.direction = params.direction;
  facts.has_descriptor = has_descriptor;
  facts.sealed = params.sealed;
  facts.unreadable = slot.datafile->unreadable_until > parts.executor.clock().now();
  facts.first_bytes = first.bytes;
  facts.first_pieces = first.extents.size();
  facts.datafile_bytes = stat.size;
  facts.direct_alignment = slot.target->direct.alignment;
  facts.direct_refusal = slot.target->direct.refusal;
  if (params.asked == wire::DataPath::kPeerToPeer || policy.path_of(params.direction) == wire::DataPath::kPeerToPeer) {
    facts.peer_refusal = peer_refusal(parts, *slot.target, params.peer, params.unit_bytes);
  }
  facts.bypass_writer = parts.leases.has_writer({slot.target->description.id, slot.id});
  std::optional<Extent> run;
  if (params.direction == flow::Direction::kWrite) {
    run = co_await one_run(parts.executor, params, slot.id.slot);
    facts.one_run = run.has_value();
    if (run) facts.datafile_bytes = std::max(stat.size, run->offset + run->size);
  } else if (flow::wants_cache_state(params.asked, facts, policy)) {
    SPATE_CO_TRY(facts.cached, co_await cache_state(slot, first));
  }
  SPATE_CO_TRY(flow::PathChoice choice, flow::choose_path(params.asked, facts, policy));
  if (choice.fell_back) {
    parts.counters.fell_back(flow::lane_of(choice.wanted), params.direction);
    if (const auto more = parts.fell_back_log.admit()) {
      SPATE_LOG("server", info, "path {} is not available, {} is taken target={} why={}{}",
                wire::name_of(choice.wanted), wire::name_of(choice.path), slot.target->description.id,
                log::Quoted{choice.why}, *more);
    }
  }
  co_return ChosenPath{std::move(choice), run.value_or(Extent{})};
}

Result<void> check_inline(wire::DataPath asked) {
  if (asked == wire::DataPath::kAutomatic) return {};
  return Error::told(Errc::kInvalidArgument, "a request that names a data path has its data in bulk messages");
}

void note_inline(Parts& parts, flow::Direction direction) {
  const wire::DataPath configured = parts.options.policy.path_of(direction);
  if (configured == wire::DataPath::kAutomatic) return;
  parts.counters.fell_back(flow::lane_of(configured), direction);
  if (const auto more = parts.fell_back_log.admit()) {
    SPATE_LOG("server", info, "path {} is not taken for data that fit a request or reply itself{}",
              wire::name_of(configured), *more);
  }
}

}  // namespace spate::io
