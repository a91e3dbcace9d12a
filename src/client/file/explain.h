// SPDX-License-Identifier: Apache-2.0
// Finds out which data path a read or write of a file would take, and why.
#pragma once

#include <string>
#include <vector>

#include "client/data/transfer.h"
#include "wire/bypass_messages.h"

namespace spate::client {

/// The answer for one slot that the read or write would use.
struct SlotPath {
  std::uint32_t slot = 0;
  TargetId target;
  std::string server;     // for people
  std::string path;       // "buffered", ..., "inline", "bypass"; "refused"
  std::string why;        // for people
  std::string no_bypass;  // why this client would not move the bytes itself; empty: it would
};

/// Asks the servers and moves no data. `target.path` is the path that the request would name.
job::Task<Result<std::vector<SlotPath>>> explain(TransferTarget target, const datatype::Description& what,
                                                 bool is_write, Limits limits);

}  // namespace spate::client
