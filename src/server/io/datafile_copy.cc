// SPDX-License-Identifier: Apache-2.0
// Copy: copies ranges of one file's datafiles to another's on the same target. No data crosses the network, and if the
// local file system can share blocks, no data is copied at all.
#include <algorithm>

#include "job/run_all.h"
#include "model/data_group.h"
#include "server/io/checks.h"
#include "server/io/full_target.h"
#include "server/io/io_service.h"
#include "server/io/removal.h"
#include "server/io/store.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

/// Most bytes of one storage operation. Other operations run in between, and a fence can end the copy.
constexpr std::uint64_t kCopyStep = 16U << 20U;

struct Pair {
  Target* target = nullptr;
  DatafileTable::Use to;
};

/// One copy under way. Lives on the handler's frame.
struct CopyWork {
  Parts& parts;
  const wire::DatafileCopyRequest& request;
  flow::Asker asker;
  ActiveRequest& active;
  std::vector<Pair> pairs;
  std::vector<wire::DatafileState> states;
};

job::Task<Result<void>> copy_piece(CopyWork& work, std::size_t index) {
  const wire::CopyPiece& piece = work.request.pieces[index];
  Pair& pair = work.pairs[index];
  // Like any reader, the copy does not lock the source.
  SPATE_CO_TRY(const DatafileLock::Hold hold, co_await work.parts.leases.lock(*pair.to, DatafileLock::Mode::kShared,
                                                                              work.asker.client, work.active.token()));
  SPATE_CO_TRY(std::ignore, co_await check_alive(work.parts, *pair.to));
  const EndAtRemoval removal(*pair.to, work.active);
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kCopy;
  request.id = {work.request.to, piece.to_slot};
  request.source = {work.request.from, piece.from_slot};
  request.now = work.request.fs_time;
  for (std::uint64_t done = 0; done < piece.size;) {
    const Extent to{piece.to_offset + done, std::min(piece.size - done, kCopyStep)};
    request.source_offset = piece.from_offset + done;
    request.extents = std::span(&to, 1);
    const auto copied = co_await run_op(*pair.target, work.asker, request, work.active.token());
    if (!copied) {
      note_if_full(work.parts, *pair.target, copied.code());
      co_return copied.error();
    }
    work.states[index] = state_of(copied->stat);
    done += to.size;
  }
  // A removed source reads as a hole.
  const auto from = work.parts.datafiles.use({piece.target, request.source});
  if (may_be_removed(*from)) {
    SPATE_CO_TRY(std::ignore, co_await check_alive(work.parts, *from));
  }
  co_return Result<void>();
}

Result<void> check_pieces(const wire::DatafileCopyRequest& request) {
  const auto bad = [](std::string_view why) { return Error(Errc::kInvalidArgument, std::string(why)); };
  if (!request.from || !request.to) return bad("a copy needs two handles");
  if (request.pieces.empty() || request.pieces.size() > kMaxSlots) return bad("a copy has 1 to 4096 pieces");
  for (std::size_t i = 0; i < request.pieces.size(); ++i) {
    const wire::CopyPiece& piece = request.pieces[i];
    if (piece.from_slot >= kMaxSlots || piece.to_slot >= kMaxSlots) return bad("a slot's number is out of range");
    if (i > 0 && piece.to_slot <= request.pieces[i - 1].to_slot) return bad("pieces must ascend");
    if (piece.size == 0) return bad("an empty piece");
    for (const std::uint64_t offset : {piece.from_offset, piece.to_offset}) {
      if (offset > trove::kMaxDatafileBytes || piece.size > trove::kMaxDatafileBytes - offset)
        return bad("a piece ends where no file can");
    }
  }
  return {};
}

Result<std::vector<Pair>> find_pairs(Parts& parts, const rpc::Call& call, const wire::DatafileCopyRequest& request) {
  if (parts.datafiles.crowded()) return Error::told(Errc::kBusy, "too many datafiles are in use at once");
  std::vector<Pair> pairs;
  pairs.reserve(request.pieces.size());
  for (const wire::CopyPiece& piece : request.pieces) {
    if (is_group(piece.target))
      return Error::told(Errc::kNotSupported, "mirrored files are copied by reading and writing them");
    if (call.header.capability) {  // a client's
      SPATE_TRY(std::ignore, check_named(parts, call, *call.header.capability, piece.target));
      SPATE_TRY(std::ignore, check_named(parts, call, request.from_capability, piece.target));
    }
    SPATE_TRY(Target* const target, find_target(parts, piece.target));
    const DatafileKey to{piece.target, {request.to, piece.to_slot}};
    pairs.push_back(Pair{target, parts.datafiles.use(to)});
  }
  return pairs;
}

}  // namespace

job::Task<Result<wire::DatafileCopyReply>> IoService::datafile_copy(rpc::Call& call,
                                                                    wire::DatafileCopyRequest request) {
  request.fs_time = credible_time(*parts_, request.fs_time);
  SPATE_CO_TRY(ClientTable::Entry* const caller,
               authorize(*parts_, call, request.to, Rights::kWrite, CapabilityNeed::kRequired));
  if (caller != nullptr) {
    SPATE_CO_TRY(std::ignore, check_capability(*parts_, call, request.from_capability, {request.from, Rights::kRead}));
  }
  SPATE_CO_TRY(std::ignore, check_pieces(request));
  SPATE_CO_TRY(std::vector<Pair> pairs, find_pairs(*parts_, call, request));
  ActiveRequest active(caller, call.peer->incarnation, epoch_of(call), call.stop);
  CopyWork work{*parts_, request, asker_of(call, caller), active, std::move(pairs), {}};
  work.states.resize(request.pieces.size());
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < request.pieces.size(); ++i) tasks.push_back(copy_piece(work, i));
  auto outcome = co_await job::run_all(parts_->executor, std::move(tasks), active.stop());
  if (!outcome) co_return explain(std::move(outcome).error(), active, caller);
  wire::DatafileCopyReply reply;
  reply.datafiles = std::move(work.states);
  co_return reply;
}

}  // namespace spate::io
