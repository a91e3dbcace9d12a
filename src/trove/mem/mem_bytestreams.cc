// SPDX-License-Identifier: Apache-2.0
#include "trove/mem/mem_bytestreams.h"

#include "trove/execute.h"
#include "trove/pieces.h"

namespace spate::trove {

bool MemBytestreams::post(const BytestreamRequest& request, void* user, BytestreamCompletion& done) {
  done = BytestreamCompletion{};
  done.user = user;
  done.status = check_request(request);
  if (done.status == Errc::kOk) execute(*store_, request, done);
  return true;
}

}  // namespace spate::trove
