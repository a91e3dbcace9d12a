// SPDX-License-Identifier: Apache-2.0
#include "tools/paged_directory.h"

namespace spate::tools {

job::Task<Result<void>> PagedDirectory::list_more(client::Client& client) {
  end_ = true;  // after an error, too
  SPATE_CO_TRY(auto page, co_await client.readdir(request_));
  end_ = page.end || page.entries.empty();
  entries_ = std::move(page.entries);
  next_ = 0;
  if (!end_) request_.cookie = entries_.back().cookie;
  co_return Result<void>();
}

}  // namespace spate::tools
