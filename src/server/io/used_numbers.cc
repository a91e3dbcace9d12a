// SPDX-License-Identifier: Apache-2.0
// used_numbers: which numbers of files, clients and groups of targets this server has met.
#include "server/io/io_service.h"
#include "server/io/parts.h"

namespace spate::io {

job::Task<Result<wire::UsedNumbersReply>> IoService::used_numbers(rpc::Call& /*call*/,
                                                                  wire::UsedNumbersRequest /*request*/) {
  wire::UsedNumbersReply reply;
  reply.files = parts_->marks.marks().files;
  reply.clients = parts_->marks.marks().clients;
  reply.groups = parts_->marks.last_group();
  co_return reply;
}

}  // namespace spate::io
