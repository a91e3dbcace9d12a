// SPDX-License-Identifier: Apache-2.0
// Timing: the times on which a group's safety depends.
#pragma once

#include "base/clock.h"

namespace spate::group {

/// The primary answers while each serving member has acknowledged a beacon that was *sent* less than `lease` ago. No
/// other member answers before `grace` has passed since the last beacon that it acknowledged. As long as the rates of
/// the clocks differ by less than (grace - lease) / grace, which is 25 %, no two members answer at the same time.
struct Timing {
  Duration beacon = std::chrono::milliseconds(250);
  Duration lease = std::chrono::milliseconds(1500);
  Duration grace = std::chrono::milliseconds(2000);  // also the silence after which a member is accused
  Duration stalled = std::chrono::seconds(10);  // a member that is alive but makes no progress for so long is evicted
  /// The wait for members that may know more entries, when all have lost some.
  Duration tail_wait = std::chrono::seconds(60);
  Duration look = std::chrono::milliseconds(100);      // how often a member checks whether there is something to do
  Duration read_record = std::chrono::seconds(1);      // how often it reads the record
  Duration message = std::chrono::milliseconds(1000);  // how long the primary waits for one answer
  Duration copy_message = std::chrono::seconds(10);
};

}  // namespace spate::group
