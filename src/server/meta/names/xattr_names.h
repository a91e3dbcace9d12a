// SPDX-License-Identifier: Apache-2.0
// Names of extended attributes, and the attributes of the layout, which are not stored but read from the inode.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/meta/store/records.h"

namespace spate::meta {

constexpr std::string_view kLayoutXattr = "user.spate.layout";
constexpr std::string_view kStripBytesXattr = "user.spate.strip_bytes";
constexpr std::string_view kStripCountXattr = "user.spate.strip_count";
constexpr std::string_view kReplicasXattr = "user.spate.replicas";
constexpr std::string_view kMinCopiesXattr = "user.spate.min_copies";
constexpr std::string_view kDistributionXattr = "user.spate.distribution";
constexpr std::string_view kFirstTargetXattr = "user.spate.first_target";

constexpr std::string_view kAccessAclXattr = "system.posix_acl_access";
constexpr std::string_view kDefaultAclXattr = "system.posix_acl_default";

enum class XattrSpace : std::uint8_t { kUser, kTrusted, kLayout, kAcl };

/// Fails with kOutOfRange for an empty or too long name. As on Linux, this check comes before the path walk, and all
/// other checks after it.
Result<void> check_xattr_length(std::string_view name);

/// kOutOfRange: an empty or too long name; kInvalidArgument: nothing after the dot, or a NUL byte; kNotSupported:
/// another name space (security, other names of system).
Result<XattrSpace> xattr_space(std::string_view name);

/// A file's layout for people: "generation=1 distribution=simple_stripe strip_bytes=1048576 slots=256,512"; '+' joins
/// the targets of one slot.
std::string describe_layout(const Layout& layout);

/// The value of a layout attribute: a file's layout, or a directory's hints. Nothing if there is none.
std::optional<std::string> layout_xattr(const InodeRecord& inode, std::string_view name);
/// Sets (or, with no value, removes) a hint of a directory. kInvalidArgument, kNotPermitted (user.spate.layout),
/// kNoAttribute (removing what is not set).
Result<void> set_layout_xattr(InodeRecord& inode, std::string_view name, std::optional<std::string_view> value,
                              const std::vector<TargetId>& targets);
/// The names that listxattr shows: a directory's hints. It does not show a file's layout, so that copying tools do not
/// try to set it.
std::vector<std::string> layout_xattr_names(const InodeRecord& inode);

}  // namespace spate::meta
