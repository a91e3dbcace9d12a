// SPDX-License-Identifier: Apache-2.0
// read_range(): all entries of a range of a keyval store, some at a time.
#pragma once

#include <string_view>

#include "job/storage.h"
#include "job/task.h"
#include "trove/key_order.h"

namespace spate::job {

/// Calls `take` with each entry of the range, in key order, up to the first error. Reads `range.limit` entries at a
/// time. `what` names the records in the message of a failed read. All references are used until the task has ended.
/// take: Result<void>(const trove::KeyValue&).
template <typename Take>
Task<Result<void>> read_range(Transaction& transaction, trove::KeyRange range, std::string_view what,
                              const Take& take) {
  for (;;) {
    const trove::KeyvalCompletion page = co_await transaction.range(range);
    if (page.status != Errc::kOk) co_return Error(page.status, what);
    for (const trove::KeyValue& entry : page.entries) {
      SPATE_CO_TRY(std::ignore, take(entry));
    }
    if (!page.more) co_return Result<void>();
    range.begin = trove::key_after(page.entries.back().key);
  }
}

}  // namespace spate::job
