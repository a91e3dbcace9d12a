// SPDX-License-Identifier: Apache-2.0
// Space of this server's targets.
#include "server/io/checks.h"
#include "server/io/io_service.h"

namespace spate::io {

job::Task<Result<wire::IoStatfsReply>> IoService::io_statfs(rpc::Call& call, wire::IoStatfsRequest /*request*/) {
  SPATE_CO_TRY(std::ignore, find_caller(*parts_, call));
  wire::IoStatfsReply reply;
  reply.targets.reserve(parts_->targets.size());
  for (Target& target : parts_->targets) {
    trove::Bytestreams& store = target.description.storage.store();
    SPATE_CO_TRY(const trove::SpaceInfo space, store.space());
    wire::TargetSpace& told = reply.targets.emplace_back();
    told.target = target.description.id;
    told.total_bytes = space.total_bytes;
    told.free_bytes = space.free_bytes;
    told.total_files = space.total_files;
    told.free_files = space.free_files;
    told.device = target.description.device;
    told.store = store.describe();
  }
  co_return reply;
}

}  // namespace spate::io
