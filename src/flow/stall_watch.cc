// SPDX-License-Identifier: Apache-2.0
#include "flow/stall_watch.h"

namespace spate::flow {

void StallWatch::begin(job::StopToken parent) {
  if (parent.stopped()) {
    source_.request_stop(parent.reason());
    return;
  }
  parent_ = parent;
  on_parent_.arm(
      parent,
      [](void* self) {
        auto* watch = static_cast<StallWatch*>(self);
        watch->source_.request_stop(watch->parent_.reason());
      },
      this);
  arm();
}

void StallWatch::arm() {
  seen_ = moves_;
  timer_.arm(executor_.now() + limit_, [](void* self) { static_cast<StallWatch*>(self)->fire(); }, this);
}

void StallWatch::fire() {
  if (moves_ == seen_) {
    source_.request_stop(Errc::kTimeout);
  } else {
    arm();
  }
}

void StallWatch::end() {
  on_parent_.disarm();
  parent_ = job::StopToken();
  timer_.disarm();
}

}  // namespace spate::flow
