// SPDX-License-Identifier: Apache-2.0
#include "tools/copy_walk.h"

#include <optional>
#include <utility>

namespace spate::tools {

void CopyWalk::enter(CopyLevel& level, const std::string& from_path, const std::string& to_path) {
  from = from_path;
  to = to_path;
  level.from_bytes = from.size();
  level.to_bytes = to.size();
}

void CopyWalk::return_to(const CopyLevel& level) {
  from.resize(level.from_bytes);
  to.resize(level.to_bytes);
}

void CopyWalk::tell(const Result<void>& copied) {
  if (!copied) run.errors.tell(copied.error());
}

job::Task<void> CopyWalk::list_more(PagedDirectory& directory) {
  const auto listed = co_await directory.list_more(client);
  if (!listed) run.errors.tell(Error(listed.error()).within("spate:" + from));
}

job::Task<void> CopyWalk::attempt(job::Task<Result<void>> copy) {
  if (run.errors.ended()) co_return;
  const auto copied = co_await std::move(copy);
  tell(copied);
}

job::Task<void> CopyWalk::begin_file(std::size_t weight, job::Task<Result<void>> copy) {
  {
    auto room = co_await slots.acquire(1);  // also bounds how many are spawned
  }
  job::spawn(gate, copy_in_slot(weight, std::move(copy)));
}

job::Task<void> CopyWalk::copy_in_slot(std::size_t weight, job::Task<Result<void>> copy) {
  auto units = co_await slots.acquire(weight);
  if (run.errors.ended()) co_return;
  const auto copied = co_await std::move(copy);
  tell(copied);
  ++run.progress.files;
}

job::Task<Result<bool>> CopyWalk::is_left_out(const Destination& destination, const CopyState& source) {
  if (run.looks()) {
    auto found = co_await client.stat(destination.where);
    if (!found && found.code() != Errc::kNotFound) co_return std::move(found).error().within("spate:" + destination.to);
    std::optional<CopyState> there;
    if (found && found->attributes.type == FileType::kRegular)
      there = CopyState{found->attributes.size, found->attributes.mtime};
    if (run.leaves_alone(found.has_value(), there, source)) co_return true;
  }
  co_return !run.begin(destination.from, "spate:" + destination.to);
}

}  // namespace spate::tools
