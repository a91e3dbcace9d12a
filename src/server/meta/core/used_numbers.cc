// SPDX-License-Identifier: Apache-2.0
#include "server/meta/core/used_numbers.h"

namespace spate::meta {
namespace {

constexpr Duration kAskAgain = std::chrono::seconds(1);

}  // namespace

UsedNumbers::UsedNumbers(job::Executor& executor, const MetaParts& parts)
    : executor_(executor), parts_(parts), known_(executor), gate_(executor) {}

void UsedNumbers::start(const std::vector<ServerId>& servers, Duration patience, Listener listener) {
  listener_ = std::move(listener);
  unanswered_ = servers.size();
  if (servers.empty() || patience == Duration(0)) known_.set();
  for (const ServerId server : servers) job::spawn(gate_, ask(server));
  if (!known_.is_set()) job::spawn(gate_, end_patience(patience));
}

job::Task<Result<void>> UsedNumbers::known(job::StopToken stop) {
  if (known_.is_set()) co_return Result<void>();
  auto waited = co_await known_.wait(stop);
  co_return waited;
}

job::Task<void> UsedNumbers::stop() {
  stopping_.request_stop();
  co_await gate_.close();
}

/// A server of an earlier version does not know the question. It is not asked again.
job::Task<void> UsedNumbers::ask(ServerId server) {
  const job::StopToken stop(stopping_);
  while (!stop.stopped()) {
    const auto reply = co_await parts_.io->used_numbers(server, stop);
    if (reply) listener_(server, *reply);
    if (reply || reply.code() == Errc::kNotSupported) break;
    const auto slept = co_await executor_.sleep(kAskAgain, stop);
    if (!slept) co_return;
  }
  if (--unanswered_ == 0) known_.set();
}

job::Task<void> UsedNumbers::end_patience(Duration patience) {
  std::ignore = co_await executor_.sleep(patience, stopping_);
  known_.set();
}

}  // namespace spate::meta
