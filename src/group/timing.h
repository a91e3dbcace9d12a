// SPDX-License-Identifier: Apache-2.0
// Timing: the times that a group's safety rests on.
#pragma once

#include "base/clock.h"

namespace spate::group {

/// The primary answers while each serving member has acknowledged a beacon that was *sent* less than `lease` ago. No
/// other member answers before `grace` has passed since the last beacon that it acknowledged. So long as clocks differ
/// in their rates by less than (grace - lease) / grace, no two answer at the same time: 25 %.
struct Timing {
  Duration beacon = std::chrono::milliseconds(250);
  Duration lease = std::chrono::milliseconds(1500);
  Duration grace = std::chrono::milliseconds(2000);    // also: of silence before a member is accused
  Duration stalled = std::chrono::seconds(10);         // a member that lives and gets no further is evicted
  Duration tail_wait = std::chrono::seconds(60);       // for members of whom one may know more, when all have lost some
  Duration look = std::chrono::milliseconds(100);      // how often a member looks whether something is to be done
  Duration read_record = std::chrono::seconds(1);      // how often it reads the record
  Duration message = std::chrono::milliseconds(1000);  // how long the primary waits for one answer
  Duration copy_message = std::chrono::seconds(10);
};

}  // namespace spate::group
