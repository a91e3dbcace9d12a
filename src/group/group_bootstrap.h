// SPDX-License-Identifier: Apache-2.0
// bootstrap_group(): makes the coordinator's record of a new group.
#pragma once

#include "coord/coordinator.h"
#include "group/link.h"
#include "group/member.h"

namespace spate::group {

struct GroupBootstrapOptions {
  std::uint32_t group = 0;
  ServerId self;
  std::vector<ServerId> members;  // in the same order everywhere
  std::uint32_t min = 1;          // of the record; at most as many as there are members
  Timing timing;
};

/// Ends when there is a record, or with `stop`. It makes the record once all members say that they hold nothing. If a
/// member holds entries, the coordinator has lost the record, and a new one would give the group to a member without
/// these entries. All arguments outlive the task.
job::Task<void> bootstrap_group(GroupBootstrapOptions options, coord::Coordinator& coordinator, Link& link,
                                const Member& member, job::Executor& executor, job::StopToken stop);

}  // namespace spate::group
