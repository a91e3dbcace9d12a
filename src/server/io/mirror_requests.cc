// SPDX-License-Identifier: Apache-2.0
// Requests of other io servers, and of fsck, about groups.
#include <algorithm>

#include "server/io/io_service.h"
#include "server/io/mirror/mirrors.h"

namespace spate::io {

job::Task<Result<wire::MirrorForwardReply>> IoService::mirror_forward(rpc::Call& call,
                                                                      wire::MirrorForwardRequest request) {
  auto reply = co_await parts_->mirrors->member().take(call, std::move(request));
  co_return reply;
}

job::Task<Result<wire::MirrorBeaconReply>> IoService::mirror_beacon(rpc::Call& call,
                                                                    wire::MirrorBeaconRequest request) {
  if (request.groups.size() > wire::kMaxBeaconGroups)
    co_return Error::told(Errc::kInvalidArgument, "at most 1024 groups a beacon");
  auto reply = co_await parts_->mirrors->member().take(call, std::move(request));
  co_return reply;
}

job::Task<Result<wire::MirrorObeyReply>> IoService::mirror_obey(rpc::Call& call, wire::MirrorObeyRequest request) {
  auto reply = co_await parts_->mirrors->member().take(call, std::move(request));
  co_return reply;
}

job::Task<Result<wire::MirrorRecordsReply>> IoService::mirror_records(rpc::Call& call,
                                                                      wire::MirrorRecordsRequest request) {
  co_return parts_->mirrors->member().take(call, request);
}

job::Task<Result<wire::MirrorWindowReply>> IoService::mirror_window(rpc::Call& call,
                                                                    wire::MirrorWindowRequest request) {
  auto reply = co_await parts_->mirrors->member().take(call, std::move(request));
  co_return reply;
}

job::Task<Result<wire::MirrorFencesReply>> IoService::mirror_fences(rpc::Call& call,
                                                                    wire::MirrorFencesRequest request) {
  auto reply = co_await parts_->mirrors->member().take(call, std::move(request));
  co_return reply;
}

job::Task<Result<wire::CopyRenewReply>> IoService::copy_renew(rpc::Call& call, wire::CopyRenewRequest request) {
  const auto is_wrong = [&request](const wire::DatafileRef& datafile) {
    return !datafile.handle || datafile.slot.slot >= kMaxSlots || datafile.slot.target != request.member;
  };
  if (request.datafiles.empty() || request.datafiles.size() > wire::kMaxProbed ||
      std::ranges::any_of(request.datafiles, is_wrong))
    co_return Error::told(Errc::kInvalidArgument, "copies are made anew of 1 to 1024 datafiles of one member");
  SPATE_CO_TRY(const std::shared_ptr<PrimaryTerm> term, parts_->mirrors->leading(request.group));
  call.deed = "renew copies group=" + std::to_string(request.group.value) +
              " member=" + std::to_string(request.member.value) + " source=" + std::to_string(request.source.value) +
              " datafiles=" + std::to_string(request.datafiles.size());
  wire::CopyRenewReply reply;
  SPATE_CO_TRY(reply.epoch, co_await term->renew(std::move(request), call.stop));
  co_return reply;
}

}  // namespace spate::io
