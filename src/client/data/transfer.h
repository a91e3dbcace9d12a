// SPDX-License-Identifier: Apache-2.0
// One read or write of a described part of a file. It sends one request to each server concerned, all at once. The data
// goes directly between the caller's memory and the network (docs/architecture.md, "A read, followed").
#pragma once

#include <span>
#include <vector>

#include "client/data/transfer_state.h"
#include "datatype/description.h"
#include "datatype/memory_map.h"
#include "job/task.h"

namespace spate::client {

/// Reads `what` into `memory` (total = what.total_bytes()). The result is short at the end of the file, like that of
/// preadv; holes read as zeros. After a failure the contents of the memory are undefined. When the task ends, the
/// network no longer uses the memory.
job::Task<Result<TransferResult>> read(TransferTarget target, const datatype::Description& what,
                                       std::span<const MutableByteView> memory, Limits limits);

/// Writes `memory` to `what`, whose pieces must not overlap. After a failure a part of it may have been written.
job::Task<Result<TransferResult>> write(TransferTarget target, const datatype::Description& what,
                                        std::span<const ByteView> memory, Limits limits);

enum class Punch : std::uint8_t {
  kZeros,    // the range becomes zeros; the size stays
  kSpace,    // the range gets disk space; the size stays
  kExtends,  // the range gets disk space, and the file grows to contain it. Older servers: kNotSupported
};
/// Punches a hole, writes zeros or reserves space in the ranges that `what` describes, as `how` says.
job::Task<Result<TransferResult>> punch(TransferTarget target, const datatype::Description& what, Punch how,
                                        Limits limits);

/// Asks the servers of the given slots for the states of their datafiles, in parallel. `sync`: each server makes the
/// data durable first.
job::Task<Result<std::vector<SlotState>>> ask_datafiles(TransferTarget target, std::span<const std::uint32_t> slots,
                                                        bool sync, Limits limits);

}  // namespace spate::client
