// SPDX-License-Identifier: Apache-2.0
// Makes durable what a change log names.
#pragma once

#include "server/io/mirror/mirror_group.h"
#include "server/io/parts.h"

namespace spate::io {

/// Syncs the datafiles with notes of this window or of earlier ones on this member, a few at a time. Fails if one may
/// have lost a change.
job::Task<Result<void>> sync_noted(Parts& parts, MirrorGroup& group, std::uint64_t window, job::StopToken stop);

/// Syncs one datafile of this member. Fails if it may have lost a change.
job::Task<Result<void>> sync_mirrored(Parts& parts, MirrorGroup& group, DatafileId datafile, job::StopToken stop);

}  // namespace spate::io
