// SPDX-License-Identifier: Apache-2.0
// MadeAtClient: the time and the handle that a client has given to a change which it made before it sent it.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "model/ids.h"

namespace spate::meta {

/// A run may make several such changes, one after another; a change that was only sent has neither. Life cycle:
/// construct -> for each run: begin() -> for each change: next(). One executor.
class MadeAtClient {
 public:
  /// A run begins at this time. Its changes are made now, and their objects get any handle.
  void begin(WallTime now) {
    *this = MadeAtClient();
    began_ = now_ = now;
  }
  /// The next change of this run was made at the client at this time. It counts as made then, unless the time has not
  /// come yet. Nothing: it is made now. The object that it makes gets this handle, which nothing has had; 0: any one.
  void next(std::optional<WallTime> when, Handle handle) {
    happened_ = when.has_value();
    now_ = std::min(when.value_or(began_), began_);
    handle_ = handle;
  }
  /// The change came after what happened at this time. No effect on a change that is made now.
  void not_before(WallTime earlier) {
    if (happened_) now_ = std::max(now_, std::min(earlier, began_));
  }

  WallTime now() const { return now_; }
  Handle take_handle() { return std::exchange(handle_, Handle()); }

 private:
  WallTime began_;
  WallTime now_;  // began_, or earlier
  bool happened_ = false;
  Handle handle_;
};

}  // namespace spate::meta
