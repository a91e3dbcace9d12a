// SPDX-License-Identifier: Apache-2.0
#include "fuse/open_files.h"

namespace spate::fuse {

std::uint64_t OpenFiles::add(OpenFile file) {
  auto shared = std::make_shared<OpenFile>(std::move(file));
  const std::lock_guard lock(mutex_);
  files_.emplace(++last_, std::move(shared));
  return last_;
}

std::shared_ptr<OpenFile> OpenFiles::find(std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(number);
  return found == files_.end() ? nullptr : found->second;
}

std::shared_ptr<OpenFile> OpenFiles::remove(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(number);
  if (found == files_.end()) return nullptr;
  auto file = std::move(found->second);
  files_.erase(found);
  return file;
}

std::size_t OpenFiles::size() const {
  const std::lock_guard lock(mutex_);
  return files_.size();
}

}  // namespace spate::fuse
