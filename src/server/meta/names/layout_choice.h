// SPDX-License-Identifier: Apache-2.0
// The layout of a new file: what the request asks for, else what its directory says, else the file system's default.
#pragma once

#include "server/meta/store/records.h"
#include "wire/meta_messages.h"

namespace spate::meta {

struct LayoutDefaults {
  std::uint64_t strip_bytes = 0;
  std::uint32_t strip_count = 0;         // 0 = all
  const std::vector<TargetId>& targets;  // in turn; not owned
};

/// Fails with kInvalidArgument when a strip size is out of range, a target does not exist or is named twice, or the
/// distribution does not fit the slots; with kNoSpace when there are no targets. A count above the number of targets
/// means all of them. `base`: the place in `targets` of the first slot, unless the request or the directory names the
/// first target.
Result<Layout> choose_layout(const wire::LayoutHints& params, const DirectoryHints& directory,
                             const LayoutDefaults& defaults, std::uint64_t base);

/// Checks of single values, shared with xattrs.
Result<void> check_strip_bytes(std::uint64_t strip_bytes);
Result<void> check_strip_count(std::uint64_t strip_count);
Result<void> check_target(TargetId target, const std::vector<TargetId>& targets);

}  // namespace spate::meta
