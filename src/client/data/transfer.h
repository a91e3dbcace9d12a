// SPDX-License-Identifier: Apache-2.0
// One read or write of a described part of a file: a request to each server concerned, all at once, the data straight
// between the caller's memory and the network (docs/architecture.md, "A read, followed").
#pragma once

#include <span>
#include <vector>

#include "client/data/transfer_state.h"
#include "datatype/description.h"
#include "datatype/memory_map.h"
#include "job/task.h"

namespace spate::client {

/// Reads `what` into `memory` (total = what.total_bytes()). Short at the end of the file, as preadv; holes are zeros.
/// After a failure the memory's contents are undefined. The memory is untouched by the network once it ends.
job::Task<Result<TransferResult>> read(TransferTarget target, const datatype::Description& what,
                                       std::span<const MutableByteView> memory, Limits limits);

/// Writes `memory` to `what`, whose pieces must not overlap. After a failure part of it may have been written.
job::Task<Result<TransferResult>> write(TransferTarget target, const datatype::Description& what,
                                        std::span<const ByteView> memory, Limits limits);

enum class Punch : std::uint8_t {
  kZeros,    // becomes zeros; the size stays
  kSpace,    // gets its space; the size stays
  kExtends,  // gets its space, and belongs to the file. kNotSupported by an older server
};
/// Punches a hole, writes zeros or reserves space where `what` describes, as `how` says.
job::Task<Result<TransferResult>> punch(TransferTarget target, const datatype::Description& what, Punch how,
                                        Limits limits);

/// The state of the given slots' datafiles, asked of their servers in parallel; `sync`: made durable first.
job::Task<Result<std::vector<SlotState>>> ask_datafiles(TransferTarget target, std::span<const std::uint32_t> slots,
                                                        bool sync, Limits limits);

}  // namespace spate::client
