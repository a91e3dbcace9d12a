// SPDX-License-Identifier: Apache-2.0
#include "server/meta/names/xattr_names.h"

#include <charconv>

#include "base/units.h"
#include "dist/registry.h"
#include "server/meta/names/layout_choice.h"

namespace spate::meta {
namespace {

constexpr std::string_view kUser = "user.";
constexpr std::string_view kTrusted = "trusted.";
constexpr std::string_view kLayoutSpace = "user.spate.";

template <typename Number>
Result<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Error::told(Errc::kInvalidArgument, "not a number: \"" + std::string(text.substr(0, 32)) + "\"");
  }
  return number;
}

Result<void> set_hint(DirectoryHints& hints, std::string_view name, std::string_view value,
                      const std::vector<TargetId>& targets) {
  if (name == kStripBytesXattr) {
    SPATE_TRY(const std::uint64_t bytes, parse_size(value));
    SPATE_TRY(std::ignore, check_strip_bytes(bytes));
    hints.strip_bytes = bytes;
    return {};
  }
  if (name == kDistributionXattr) {
    SPATE_TRY(hints.distribution, parse_distribution(value));
    return {};
  }
  SPATE_TRY(const auto number, parse_number<std::uint32_t>(value));
  if (name == kStripCountXattr) {
    SPATE_TRY(std::ignore, check_strip_count(number));
    hints.strip_count = number;
    return {};
  }
  if (name == kReplicasXattr) {
    SPATE_TRY(std::ignore, check_replicas(number, targets));
    hints.replicas = number;
    return {};
  }
  if (name == kMinCopiesXattr) {
    SPATE_TRY(std::ignore, check_min_copies(number));
    hints.min_copies = number;
    return {};
  }
  SPATE_TRY(std::ignore, check_target(TargetId(number), targets));
  hints.first_target = TargetId(number);
  return {};
}

bool is_hint(std::string_view name) {
  return name == kStripBytesXattr || name == kStripCountXattr || name == kFirstTargetXattr ||
         name == kDistributionXattr || name == kReplicasXattr || name == kMinCopiesXattr;
}

}  // namespace

Result<void> check_xattr_length(std::string_view name) {
  if (name.empty() || name.size() > kMaxXattrNameBytes) return Errc::kOutOfRange;
  return {};
}

Result<XattrSpace> xattr_space(std::string_view name) {
  SPATE_TRY(std::ignore, check_xattr_length(name));
  if (name.find('\0') != std::string_view::npos) return Errc::kInvalidArgument;
  if (name.starts_with(kLayoutSpace)) return XattrSpace::kLayout;
  if (name.starts_with(kUser)) return name.size() > kUser.size() ? Result(XattrSpace::kUser) : Errc::kInvalidArgument;
  if (name.starts_with(kTrusted)) {
    return name.size() > kTrusted.size() ? Result(XattrSpace::kTrusted) : Errc::kInvalidArgument;
  }
  if (name == kAccessAclXattr || name == kDefaultAclXattr) return XattrSpace::kAcl;
  return Error::told(Errc::kNotSupported, "extended attributes are user.*, trusted.* and access control lists");
}

std::string describe_layout(const Layout& layout) {
  std::string text = "generation=" + std::to_string(layout.generation) +
                     " distribution=" + describe(layout.distribution) +
                     " strip_bytes=" + std::to_string(layout.strip_bytes) + " slots=";
  for (std::size_t i = 0; i < layout.slots.size(); ++i) {
    if (i > 0) text += ',';
    const std::vector<TargetId>& targets = layout.slots[i].targets;
    for (std::size_t t = 0; t < targets.size(); ++t) text += (t > 0 ? "+" : "") + std::to_string(targets[t].value);
  }
  return text;
}

std::optional<std::string> layout_xattr(const InodeRecord& inode, std::string_view name) {
  const DirectoryHints& hints = inode.hints;
  if (name == kLayoutXattr && inode.layout) return describe_layout(*inode.layout);
  if (name == kStripBytesXattr && hints.strip_bytes) return std::to_string(*hints.strip_bytes);
  if (name == kStripCountXattr && hints.strip_count) return std::to_string(*hints.strip_count);
  if (name == kFirstTargetXattr && hints.first_target) return std::to_string(hints.first_target->value);
  if (name == kDistributionXattr && hints.distribution) return describe(*hints.distribution);
  if (name == kReplicasXattr && hints.replicas) return std::to_string(*hints.replicas);
  if (name == kMinCopiesXattr && hints.min_copies) return std::to_string(*hints.min_copies);
  return std::nullopt;
}

Result<void> set_layout_xattr(InodeRecord& inode, std::string_view name, std::optional<std::string_view> value,
                              const std::vector<TargetId>& targets) {
  if (name == kLayoutXattr) return Error::told(Errc::kNotPermitted, "a file's layout is set when it is made");
  if (!is_hint(name))
    return Error::told(
        Errc::kInvalidArgument,
        "user.spate.* has strip_bytes, strip_count, first_target, distribution, replicas and min_copies");
  if (!inode.is_directory()) return Error::told(Errc::kInvalidArgument, "layout attributes are set on directories");
  if (value) return set_hint(inode.hints, name, *value, targets);
  if (!layout_xattr(inode, name)) return Errc::kNoAttribute;
  if (name == kStripBytesXattr) inode.hints.strip_bytes.reset();
  if (name == kStripCountXattr) inode.hints.strip_count.reset();
  if (name == kFirstTargetXattr) inode.hints.first_target.reset();
  if (name == kDistributionXattr) inode.hints.distribution.reset();
  if (name == kReplicasXattr) inode.hints.replicas.reset();
  if (name == kMinCopiesXattr) inode.hints.min_copies.reset();
  return {};
}

std::vector<std::string> layout_xattr_names(const InodeRecord& inode) {
  std::vector<std::string> names;
  for (const std::string_view name :
       {kStripBytesXattr, kStripCountXattr, kFirstTargetXattr, kDistributionXattr, kReplicasXattr, kMinCopiesXattr}) {
    if (layout_xattr(inode, name)) names.emplace_back(name);
  }
  return names;
}

}  // namespace spate::meta
