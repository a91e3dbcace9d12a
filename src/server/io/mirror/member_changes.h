// SPDX-License-Identifier: Apache-2.0
// Carries out on this member what the primary has forwarded, and makes durable what its change log names.
#pragma once

#include "server/io/mirror/mirror_group.h"
#include "server/io/parts.h"
#include "wire/mirror_forward_messages.h"

namespace spate::io {

/// Fails with kProtocol if a primary does not send such requests.
Result<void> check_forward(const wire::MirrorForwardRequest& request);
/// The first and the last region that the change concerns.
ChangedRegion first_region(const wire::MirrorForwardRequest& request);
std::uint64_t last_region(const wire::MirrorForwardRequest& request);

/// Notes the change and makes it. The caller has checked the request, and lets no overlapping change run at the same
/// time. All arguments outlive the task. `data`: the bytes of a write.
job::Task<Result<void>> carry_out_forward(Parts& parts, MirrorGroup& group, const wire::MirrorForwardRequest& request,
                                          ByteView data);

/// Removes the group's datafiles from all targets of this server, and the notes of changes. The member must not serve,
/// and must take no changes meanwhile. After a failure, or if `stop` fires, a part of them is left; call it again.
job::Task<Result<void>> remove_copies(Parts& parts, MirrorGroup& group, job::StopToken stop);

/// Syncs the datafiles with notes of this window or of earlier ones on this member, a few at a time. Fails if one may
/// have lost a change.
job::Task<Result<void>> sync_noted(Parts& parts, MirrorGroup& group, std::uint64_t window, job::StopToken stop);
/// Syncs one datafile of this member. Fails if it may have lost a change.
job::Task<Result<void>> sync_mirrored(Parts& parts, MirrorGroup& group, DatafileId datafile, job::StopToken stop);

}  // namespace spate::io
