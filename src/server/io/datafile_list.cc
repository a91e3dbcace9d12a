// SPDX-License-Identifier: Apache-2.0
// Lists the datafiles of a target, page by page, for fsck.
#include <algorithm>

#include "server/io/checks.h"
#include "server/io/io_service.h"

namespace spate::io {
namespace {

constexpr std::uint32_t kMaxPage = 4096;

}  // namespace

job::Task<Result<wire::DatafileListReply>> IoService::datafile_list(rpc::Call& call,
                                                                    wire::DatafileListRequest request) {
  SPATE_CO_TRY(Target* const target, find_target(*parts_, request.target));
  // A datafile takes 20 bytes of the reply. The reply, with its other fields, must fit the room that the caller has.
  const std::uint32_t fits = call.header.reply_room / 32;
  const std::uint32_t max = std::clamp(std::min(request.max, fits), 1U, kMaxPage);
  const DatafileId after{request.after_handle, request.after_slot};
  SPATE_CO_TRY(const std::vector<DatafileId> page, target->description.storage.store().list(after, max));
  wire::DatafileListReply reply;
  reply.datafiles.reserve(page.size());
  for (const DatafileId& id : page) reply.datafiles.push_back({id.handle, {id.slot, request.target}});
  reply.end = page.size() < max;
  co_return reply;
}

}  // namespace spate::io
