// SPDX-License-Identifier: Apache-2.0
#include "fsck/links.h"

#include <algorithm>

namespace spate::fsck {

static_assert(sizeof(Linked) == 32);

LinkTable::LinkTable(std::size_t max_bytes) : max_inodes_(std::max<std::size_t>(1, max_bytes / sizeof(Linked))) {}

bool LinkTable::add(const wire::InodeFact& inode) {
  if (!inodes_.empty() && inodes_.back().handle >= inode.handle) return false;
  Linked& linked = inodes_.emplace_back();
  linked.handle = inode.handle;
  linked.version = inode.version;
  linked.directory = inode.type == FileType::kDirectory;
  linked.link_count = inode.link_count;
  if (linked.directory) linked.link_count = inode.handle == kRootHandle ? 0 : 1;
  return true;
}

void LinkTable::count(Handle handle) {
  const auto found = std::lower_bound(inodes_.begin(), inodes_.end(), handle,
                                      [](const Linked& linked, Handle wanted) { return linked.handle < wanted; });
  if (found != inodes_.end() && found->handle == handle) ++found->names;
}

std::vector<Linked> LinkTable::take_suspects() {
  std::vector<Linked> suspects;
  for (const Linked& linked : inodes_) {
    // An object without links waits for its last close. The server knows whether somebody has it open.
    const bool nameless_file = linked.names == 0 && linked.handle != kRootHandle;
    if (linked.names != linked.link_count || nameless_file) suspects.push_back(linked);
  }
  inodes_.clear();
  return suspects;
}

}  // namespace spate::fsck
