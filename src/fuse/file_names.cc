// SPDX-License-Identifier: Apache-2.0
#include "fuse/file_names.h"

#include <utility>

namespace spate::fuse {
namespace {

/// Longer paths, and circles of names that are out of date, end here.
constexpr int kMostSteps = 64;

}  // namespace

void FileNames::note(Handle object, Handle directory, std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (recent_.size() >= most_) earlier_ = std::exchange(recent_, {});
  Name& known = recent_[object];
  known.directory = directory;
  known.name.assign(name);
}

const FileNames::Name* FileNames::find(Handle object) const {
  for (const Names* const names : {&recent_, &earlier_}) {
    const auto found = names->find(object);
    if (found != names->end()) return &found->second;
  }
  return nullptr;
}

std::string FileNames::path_of(Handle object) const {
  const std::lock_guard lock(mutex_);
  std::string path;
  Handle at = object;
  for (int steps = 0; at != kRootHandle && steps < kMostSteps; ++steps) {
    const Name* const name = find(at);
    if (name == nullptr) return path.empty() ? path : "inode " + std::to_string(at.value) + "/" + path;
    path = path.empty() ? name->name : name->name + "/" + path;
    at = name->directory;
  }
  return path;
}

}  // namespace spate::fuse
