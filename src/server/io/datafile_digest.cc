// SPDX-License-Identifier: Apache-2.0
// Digest: what a copy of a datafile contains, in a few bytes. fsck compares the copies of mirrored files by it.
#include <algorithm>

#include "base/checksum.h"
#include "server/io/checks.h"
#include "server/io/io_service.h"
#include "server/io/target.h"

namespace spate::io {
namespace {

Result<void> check_request(const wire::DatafileDigestRequest& request) {
  if (!request.datafile.handle) return Error::told(Errc::kInvalidArgument, "a request needs a handle");
  if (request.size == 0 || request.size > wire::kMaxDigested)
    return Error::told(Errc::kInvalidArgument, "digests are of 1 byte to 16 MiB a request");
  if (request.offset > trove::kMaxDatafileBytes || request.size > trove::kMaxDatafileBytes - request.offset)
    return Error::told(Errc::kInvalidArgument, "digests of a range beyond the largest size of a datafile");
  return {};
}

}  // namespace

job::Task<Result<wire::DatafileDigestReply>> IoService::datafile_digest(rpc::Call& call,
                                                                        wire::DatafileDigestRequest request) {
  SPATE_CO_TRY(std::ignore, check_request(request));
  SPATE_CO_TRY(const Place place, find_place(*parts_, request.datafile.slot.target));
  ActiveRequest active(nullptr, call.peer->incarnation, epoch_of(call), call.stop);
  const flow::Asker background(ClientId(), wire::Priority::kBackground);
  trove::BytestreamRequest read;
  read.op = trove::BytestreamOp::kRead;
  read.id = {request.datafile.handle, request.datafile.slot.slot};
  Bytes content(std::min(request.size, wire::kDigestBytes));
  wire::DatafileDigestReply reply;
  for (std::uint64_t done = 0; done < request.size; done += wire::kDigestBytes) {
    const Extent range{request.offset + done, std::min(request.size - done, wire::kDigestBytes)};
    const MutableByteView memory = MutableByteView(content).first(range.size);
    read.extents = {&range, 1};
    read.memory = {&memory, 1};
    SPATE_CO_TRY(const auto got, co_await run_op(*place.target, background, read, active.token()));
    if (got.bytes > 0) reply.digests.push_back(hash64(ByteView(content).first(got.bytes)));
    if (got.bytes < range.size) break;
  }
  co_return reply;
}

}  // namespace spate::io
