// SPDX-License-Identifier: Apache-2.0
#include "job/stop.h"

namespace spate::job {

void StopSource::request_stop(Errc reason) {
  if (stopped()) return;
  reason_ = reason;
  while (first_ != nullptr) {
    StopCallback* callback = first_;
    const auto action = callback->action_;
    void* const argument = callback->argument_;
    callback->disarm();  // before the call: the action may destroy it
    action(argument);
  }
}

void StopCallback::arm(StopToken token, Action action, void* argument) {
  disarm();
  if (token.source_ == nullptr || token.stopped()) return;
  source_ = token.source_;
  action_ = action;
  argument_ = argument;
  next_ = source_->first_;
  if (next_ != nullptr) next_->previous_ = this;
  source_->first_ = this;
}

void StopCallback::disarm() {
  if (source_ == nullptr) return;
  (previous_ != nullptr ? previous_->next_ : source_->first_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
  source_ = nullptr;
  next_ = previous_ = nullptr;
}

}  // namespace spate::job
