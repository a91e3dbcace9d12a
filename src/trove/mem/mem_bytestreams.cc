// SPDX-License-Identifier: Apache-2.0
#include "trove/mem/mem_bytestreams.h"

#include "trove/execute.h"
#include "trove/pieces.h"

namespace spate::trove {

bool MemBytestreams::post(const BytestreamRequest& request, void* user, BytestreamCompletion& done) {
  done = BytestreamCompletion{};
  done.user = user;
  done.status = check_request(request);
  if (request.direct && !fit_for_direct(request, direct_alignment_)) done.status = Errc::kInvalidArgument;
  BytestreamRequest plain = request;
  plain.direct = false;
  if (done.status == Errc::kOk) execute(*store_, plain, done);
  return true;
}

}  // namespace spate::trove
