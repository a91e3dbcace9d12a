// SPDX-License-Identifier: Apache-2.0
// Operations and answers as text, for people who examine a failing seed.
#include <fmt/format.h>

#include <algorithm>

#include "tests/cluster/name_ops.h"

namespace spate::cluster {

std::string_view name(NameOpKind kind) {
  static constexpr std::array<std::string_view, 16> kNames = {
      "lookup", "readdir", "open",    "create",   "mkdir",    "symlink",  "link",      "unlink",
      "rmdir",  "rename",  "setattr", "truncate", "getxattr", "setxattr", "listxattr", "removexattr"};
  return kNames.at(static_cast<std::size_t>(kind));
}

bool changes(NameOpKind kind) {
  return kind != NameOpKind::kLookup && kind != NameOpKind::kReaddir && kind != NameOpKind::kGetxattr &&
         kind != NameOpKind::kListxattr;
}

std::uint16_t Targets::number(const Path& path) {
  const auto found = std::find(paths_.begin(), paths_.end(), path);
  if (found != paths_.end()) return static_cast<std::uint16_t>(found - paths_.begin());
  paths_.push_back(path);
  return static_cast<std::uint16_t>(paths_.size() - 1);
}

std::string to_string(const NameTable& names, const NameOp& op) {
  std::string text = fmt::format("#{} {} {}", op.number, name(op.kind), to_string(names, op.path));
  if (!op.other.parts.empty()) text += " " + to_string(names, op.other);
  if (op.handle != 0) text += fmt::format(" handle={}", op.handle);
  if (op.flags != 0) text += fmt::format(" flags={}", op.flags);
  if (op.kind >= NameOpKind::kGetxattr && op.kind != NameOpKind::kListxattr)
    text += fmt::format(" x{}={}", op.xattr, op.value);
  if (op.mode) text += fmt::format(" mode={:o}", *op.mode);
  if (op.mtime) text += fmt::format(" mtime={}", *op.mtime);
  if (op.exclusive) text += " exclusive";
  if (!op.follow) text += " nofollow";
  return text;
}

std::string to_string(const NameTable& names, const Facts& facts) {
  std::string text(name(facts.code));
  if (facts.object) {
    text += fmt::format(" handle={} type={} mode={:o} links={} entries={}", facts.handle, static_cast<int>(facts.type),
                        facts.mode, facts.links, facts.entries);
    if (facts.mtime != kUnknownTime) text += fmt::format(" mtime={}", facts.mtime);
    if (!facts.target.empty()) text += " target=" + facts.target;
  }
  if (facts.xattr != 0) text += fmt::format(" x={}", facts.xattr);
  for (const Listed& entry : facts.listing) text += fmt::format(" {}:{}", names.text(entry.name), entry.handle);
  return text;
}

}  // namespace spate::cluster
