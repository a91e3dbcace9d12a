// SPDX-License-Identifier: Apache-2.0
// Removals of datafiles. EndAtRemoval: ends other requests that change a datafile when it is removed. redo_removals():
// repeats removals that a crash of the machine may have undone.
#pragma once

#include "server/io/parts.h"

namespace spate::io {

/// Made with the datafile's lock held, after check_alive() and before the next await. While it lives, a removal stops
/// the request with kStaleHandle, so that the removal does not wait for a client that sends slowly. Pinned.
class EndAtRemoval {
 public:
  EndAtRemoval(DatafileTable::Entry& datafile, ActiveRequest& active) {
    if (datafile.removal.stopped()) return;  // its tombstone has expired
    on_removal_.arm(
        job::StopToken(datafile.removal),
        [](void* request) { static_cast<ActiveRequest*>(request)->stop().request_stop(Errc::kStaleHandle); }, &active);
  }
  EndAtRemoval(const EndAtRemoval&) = delete;
  EndAtRemoval& operator=(const EndAtRemoval&) = delete;

 private:
  job::StopCallback on_removal_;
};

/// Deletes every datafile with a tombstone again, unless that was done in this boot of the machine. It is needed
/// because a removal is answered before it is durable; only its tombstone is durable by then. Sets
/// parts.removals_redone. After a failure some may be done: call it again. Only with options.boot != 0.
job::Task<Result<void>> redo_removals(Parts& parts);

}  // namespace spate::io
