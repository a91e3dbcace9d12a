// SPDX-License-Identifier: Apache-2.0
// A primary whose own copy cannot be read has another member lead.
#include "server/io/mirror/primary_term.h"

namespace spate::io {
namespace {

constexpr Duration kUnreadPause = std::chrono::minutes(1);

}  // namespace

job::Task<Error> PrimaryTerm::read_failed(Errc why) {
  const MonoTime now = parts_.executor.now();
  const bool in_this_term = group_.unread_term == number_;
  if (!in_this_term && group_.unread_term != 0 && now < group_.unread_at + kUnreadPause) co_return Error(why);
  if (!in_this_term) group_.unread_at = now;
  group_.unread_term = number_;
  co_await step_down(why);
  if (group_.is_primary()) co_return Error(why);
  co_return Error::told(Errc::kNotPrimary, "this server cannot read its copy of group " +
                                               std::to_string(group_.id.value) + ", and does not lead now");
}

}  // namespace spate::io
