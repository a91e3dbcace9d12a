// SPDX-License-Identifier: Apache-2.0
#include "preload/holding.h"

#include <set>

#include "preload/broker_link.h"
#include "preload/locks.h"

namespace spate::preload {
namespace {

/// The broker to ask about a closed file.
struct Asked {
  Mount* mount;
  std::uint64_t broker;
  friend auto operator<=>(const Asked&, const Asked&) = default;
};

void settle_at(const Asked& asked) {
  const Question question{*asked.mount, asked.broker, BrokerRequest{}};
  std::ignore = ask_broker(question);
}

bool left_with_broker(Description& d) {
  return (d.state()->kept.load() & (SharedState::kHeld | SharedState::kLocked)) != 0;
}

}  // namespace

Result<void> hand_over(Description& d, int descriptor) {
  if (d.is_place() || !d.is_open() || (d.state()->kept.load() & SharedState::kHeld) != 0) return {};
  BrokerRequest request;
  request.word = BrokerOp::kHold;
  request.lock.handle = d.handle();
  SPATE_TRY(std::ignore, ask_about(d, descriptor, request));
  d.state()->kept.fetch_or(SharedState::kHeld);
  return {};
}

void before_losing(int descriptor) {
  look_at_inherited_locks();
  const DescriptionRef d = known_description_of(descriptor);
  if (d != nullptr && d->may_be_shared() && is_last(descriptor)) std::ignore = hand_over(*d, descriptor);
}

Result<void> lose(DescriptionRef description) {
  if (description == nullptr) return {};
  drop_record_locks(*description);
  const bool left = left_with_broker(*description);
  Asked asked{&description->mount(), left ? broker_of(*description).value_or(0) : 0};
  auto last = release(std::move(description));
  if (left && (!last || *last)) settle_at(asked);
  return last ? Result<void>() : Result<void>(std::move(last).error());
}

void lose_everything() {
  std::set<Asked> asked;
  for (int number = next_descriptor(0); number >= 0; number = next_descriptor(number + 1)) {
    before_losing(number);
    const DescriptionRef d = known_description_of(number);
    if (d == nullptr) continue;
    if (left_with_broker(*d)) {
      asked.insert({&d->mount(), broker_of(*d).value_or(0)});
      std::ignore = replace(number, nullptr);
      raw(SYS_close, number);
    } else {
      std::ignore = d->close();
      continue;
    }
    if (d.use_count() == 1) std::ignore = d->close();
  }
  drop_all_record_locks();
  for (const Asked& one : asked) settle_at(one);
}

bool hand_everything_over() {
  bool all = true;
  for (int number = next_descriptor(0); number >= 0; number = next_descriptor(number + 1)) {
    const DescriptionRef d = known_description_of(number);
    if (d == nullptr) continue;
    const long flags = raw(SYS_fcntl, number, F_GETFD);
    const bool goes = failed(flags) || (flags & FD_CLOEXEC) != 0;
    if (goes) drop_record_locks(*d);
    if (!goes || d->may_be_shared()) all &= hand_over(*d, number).has_value();
  }
  if (!all) return false;
  for (int number = next_descriptor(0); number >= 0; number = next_descriptor(number + 1)) {
    if (const DescriptionRef d = known_description_of(number)) std::ignore = d->close();
  }
  return true;
}

}  // namespace spate::preload
