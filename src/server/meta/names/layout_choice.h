// SPDX-License-Identifier: Apache-2.0
// Chooses the layout of a new file: from the request, else from its directory's hints, else from the file system's
// defaults.
#pragma once

#include "server/meta/store/records.h"
#include "wire/meta_messages.h"

namespace spate::meta {

struct LayoutDefaults {
  std::uint64_t strip_bytes = 0;
  std::uint32_t strip_count = 0;         // 0: all targets
  const std::vector<TargetId>& targets;  // in the order of placement; not owned
};

/// Fails with kInvalidArgument if a strip size is out of range, a target does not exist or is named twice, or the
/// distribution does not fit the slots; with kNoSpace if there are no targets. A count above the number of targets
/// means all of them. Whether the groups exist that the request names is left to mirror(). `base`: index in `targets`
/// of the first slot, unless the request or the directory names the first target.
Result<Layout> choose_layout(const wire::LayoutHints& params, const DirectoryHints& directory,
                             const LayoutDefaults& defaults, std::uint64_t base);

/// Checks of single values. The extended attributes use them, too.
Result<void> check_strip_bytes(std::uint64_t strip_bytes);
Result<void> check_strip_count(std::uint64_t strip_count);
Result<void> check_target(TargetId target, const std::vector<TargetId>& targets);
/// Also refuses more copies than there are io servers.
Result<void> check_replicas(std::uint64_t replicas, const std::vector<TargetId>& targets);
/// A file with fewer copies needs all of them.
Result<void> check_min_copies(std::uint64_t min_copies);

}  // namespace spate::meta
