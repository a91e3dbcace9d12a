// SPDX-License-Identifier: Apache-2.0
#include "server/meta/names/layout_choice.h"

#include <algorithm>
#include <set>

#include "dist/registry.h"

namespace spate::meta {
namespace {

Result<std::vector<Slot>> slots_as_named(const std::vector<TargetId>& names, const std::vector<TargetId>& targets) {
  if (names.size() > kMaxSlots) return Error::told(Errc::kInvalidArgument, "more targets than a layout can have");
  std::vector<Slot> slots;
  std::set<TargetId> seen;
  for (const TargetId target : names) {
    if (!is_group(target)) {
      SPATE_TRY(std::ignore, check_target(target, targets));
    }
    if (!seen.insert(target).second) return Error::told(Errc::kInvalidArgument, "a target is named twice");
    slots.push_back(Slot{{target}});
  }
  return slots;
}

}  // namespace

Result<void> check_strip_bytes(std::uint64_t strip_bytes) {
  if (strip_bytes >= kMinStripBytes && strip_bytes <= kMaxStripBytes) return {};
  return Error::told(Errc::kInvalidArgument,
                     "strip_bytes must be " + std::to_string(kMinStripBytes) + " to " + std::to_string(kMaxStripBytes));
}

Result<void> check_strip_count(std::uint64_t strip_count) {
  if (strip_count <= kMaxSlots) return {};
  return Error::told(Errc::kInvalidArgument, "strip_count must be 0 (all targets) to " + std::to_string(kMaxSlots));
}

Result<void> check_target(TargetId target, const std::vector<TargetId>& targets) {
  if (std::find(targets.begin(), targets.end(), target) != targets.end()) return {};
  return Error::told(Errc::kInvalidArgument, "there is no target " + std::to_string(target.value));
}

Result<void> check_replicas(std::uint64_t replicas, const std::vector<TargetId>& targets) {
  if (replicas < 1 || replicas > kMaxReplicas)
    return Error::told(Errc::kInvalidArgument, "replicas must be 1 to " + std::to_string(kMaxReplicas));
  std::set<ServerId> servers;
  for (const TargetId target : targets) servers.insert(server_of(target));
  if (replicas <= servers.size()) return {};
  return Error::told(Errc::kInvalidArgument, "replicas=" + std::to_string(replicas) +
                                                 " needs as many io servers, and the file system has " +
                                                 std::to_string(servers.size()));
}

Result<void> check_min_copies(std::uint64_t min_copies) {
  if (min_copies >= 1 && min_copies <= kMaxReplicas) return {};
  return Error::told(Errc::kInvalidArgument, "min_copies must be 1 to " + std::to_string(kMaxReplicas));
}

Result<Layout> choose_layout(const wire::LayoutHints& params, const DirectoryHints& directory,
                             const LayoutDefaults& defaults, std::uint64_t base) {
  const std::vector<TargetId>& targets = defaults.targets;
  if (targets.empty()) return Error::told(Errc::kNoSpace, "the file system has no io server");
  Layout layout;
  layout.strip_bytes = params.strip_bytes.value_or(directory.strip_bytes.value_or(defaults.strip_bytes));
  SPATE_TRY(std::ignore, check_strip_bytes(layout.strip_bytes));
  layout.distribution = params.distribution.value_or(directory.distribution.value_or(DistributionSpec()));
  if (!params.targets.empty()) {
    SPATE_TRY(layout.slots, slots_as_named(params.targets, targets));
    SPATE_TRY(std::ignore, make_distribution(layout));
    return layout;
  }
  const std::uint32_t wanted = params.slot_count.value_or(directory.strip_count.value_or(defaults.strip_count));
  SPATE_TRY(std::ignore, check_strip_count(wanted));
  const std::size_t most = std::min(targets.size(), kMaxSlots);
  SPATE_TRY(const std::size_t count,
            slots_of(layout.distribution, wanted == 0 ? most : std::min<std::size_t>(wanted, most), most));
  std::size_t first = base % targets.size();
  if (params.first_target) {
    SPATE_TRY(std::ignore, check_target(*params.first_target, targets));
  }
  // A directory's first target may have left the cluster since it was set. Then any other target is used.
  if (const auto named = params.first_target ? params.first_target : directory.first_target) {
    const auto found = std::find(targets.begin(), targets.end(), *named);
    if (found != targets.end()) first = static_cast<std::size_t>(found - targets.begin());
  }
  layout.slots.reserve(count);
  for (std::size_t i = 0; i < count; ++i) layout.slots.push_back(Slot{{targets[(first + i) % targets.size()]}});
  return layout;
}

}  // namespace spate::meta
