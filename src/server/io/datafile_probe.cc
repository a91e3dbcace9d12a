// SPDX-License-Identifier: Apache-2.0
// Probe: which datafiles exist, and their sizes. fsck uses it, since it must distinguish a missing datafile from an
// empty one.
#include "job/run_all.h"
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

job::Task<Result<void>> probe_one(Target& target, DatafileId id, ActiveRequest& active,
                                  wire::DatafilePresence& presence) {
  trove::BytestreamRequest request;
  request.op = trove::BytestreamOp::kOpen;
  request.id = id;
  const auto opened = co_await run_op(target, ClientId(), request, active.token());
  if (opened.code() == Errc::kNotFound) co_return Result<void>();
  if (!opened) co_return opened.error();
  SPATE_CO_TRY(const auto stat, co_await stat_datafile(target, ClientId(), id, active.token()));
  presence.present = true;
  presence.size = stat.size;
  co_return Result<void>();
}

}  // namespace

job::Task<Result<wire::DatafileProbeReply>> IoService::datafile_probe(rpc::Call& call,
                                                                      wire::DatafileProbeRequest request) {
  if (request.datafiles.size() > wire::kMaxProbed) {
    co_return Error::told(Errc::kInvalidArgument, "at most 1024 datafiles a request");
  }
  ActiveRequest active(nullptr, call.peer->incarnation, epoch_of(call), call.stop);
  wire::DatafileProbeReply reply;
  reply.datafiles.resize(request.datafiles.size());
  std::vector<job::Task<Result<void>>> tasks;
  for (std::size_t i = 0; i < request.datafiles.size(); ++i) {
    const wire::DatafileRef& ref = request.datafiles[i];
    if (!ref.handle) co_return Error::told(Errc::kInvalidArgument, "a request needs a handle");
    SPATE_CO_TRY(const Place place, find_place(*parts_, ref.slot.target));
    tasks.push_back(probe_one(*place.target, {ref.handle, ref.slot.slot}, active, reply.datafiles[i]));
  }
  SPATE_CO_TRY(std::ignore, co_await job::run_all(parts_->executor, std::move(tasks), active.stop()));
  co_return reply;
}

}  // namespace spate::io
