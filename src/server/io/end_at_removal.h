// SPDX-License-Identifier: Apache-2.0
// EndAtRemoval: ends a request that changes a datafile when the datafile is removed.
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

}  // namespace spate::io
