// SPDX-License-Identifier: Apache-2.0
// Fence: a session has ended at the meta server. None of its requests may take effect here from now on.
#include <algorithm>

#include "log/fields.h"
#include "log/log.h"
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/store.h"

namespace spate::io {

job::Task<Result<wire::FenceReply>> IoService::fence(rpc::Call& call, wire::FenceRequest request) {
  if (!request.client) co_return Error::told(Errc::kInvalidArgument, "a fence needs a client");
  const std::uint32_t lowest = request.lowest_epoch;
  // First refuse new requests, so that none begins during the wait; then store the fence; then wait for those under
  // way.
  ClientTable::Entry& entry = parts_->clients.add(request.client);
  const ClientTable::Pin pin(entry);
  entry.lowest_epoch = std::max(entry.lowest_epoch, lowest);
  SPATE_CO_TRY(std::ignore, co_await store_fence(*parts_, request.client, lowest));
  co_await parts_->clients.end_all(entry, [lowest](const ActiveRequest& r) { return r.epoch < lowest; });
  SPATE_CO_TRY(std::ignore, co_await parts_->leases.end_client(request.client, lowest, call.stop));
  SPATE_LOG("server", info, "client fenced client={} lowest_epoch={} trace={}", request.client, lowest,
            call.header.trace);
  co_return wire::Empty();
}

}  // namespace spate::io
