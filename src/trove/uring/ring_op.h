// SPDX-License-Identifier: Apache-2.0
// RingOp: one read or write in the ring, as several concurrent steps.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trove/device_extents.h"
#include "trove/local_bytestreams.h"
#include "trove/pieces.h"

namespace spate::trove {

class RingOp;

/// One readv or writev in flight. Pinned while the kernel has it.
struct RingStep {
  RingOp* op = nullptr;
  std::vector<iovec> pieces;
  std::size_t first = 0;        // pieces before this one are done
  std::uint64_t offset = 0;     // in the file, of what is left
  std::uint64_t left = 0;       // bytes
  std::uint64_t stream_at = 0;  // position of what is left in the request's stream
  unsigned retries = 0;
  bool registered = false;  // the entry that the ring has now names a registered region

  /// Takes `bytes` (<= left) off the front.
  void advance(std::uint64_t bytes);
};

/// Constructed with the operation's open datafile, ended by finish(). It counts bytes up to the first gap: the file's
/// end, or an error.
class RingOp {
 public:
  RingOp(std::unique_ptr<QueuedOp> op, DatafileStore::Datafile datafile);

  /// False: the write would have to wait for another change of the datafile. Then nothing has happened, and the caller
  /// ends the operation with give_back().
  bool begun() const { return !change_ || change_->begun(); }
  std::unique_ptr<QueuedOp> give_back() { return std::move(queued_); }
  bool is_write() const { return queued_->request.op == BytestreamOp::kWrite; }
  const LocalDatafile& datafile() const { return *datafile_; }
  /// The descriptor that its steps use; -errno: there is none.
  int fd() const { return fd_; }

  /// The next step to be given to the ring, or null: nothing is left, or as much as allowed is in flight.
  RingStep* next_step();
  /// True: `step` has a rest that must be given to the ring again. False: the step has ended.
  bool take_result(RingStep& step, int result);
  bool over() const { return in_flight_ == 0 && (stopped_ || cursor_.left() == 0); }
  BytestreamCompletion finish(DatafileStore& store);

  /// Set by the ring's owner: the operation is in the queue of those that found the ring full.
  bool waits_for_ring = false;

 private:
  Step next_of(std::span<iovec> pieces);
  void stop_at(std::uint64_t position, Errc status);
  RingStep& free_step();

  std::unique_ptr<QueuedOp> queued_;
  DatafileStore::Datafile datafile_;
  std::optional<ChangeScope> change_;
  const int fd_;
  std::uint64_t limit_;
  PieceCursor cursor_;
  std::uint64_t stream_at_;
  std::size_t window_;
  DeviceExtents extents_;
  std::size_t in_flight_ = 0;
  bool stopped_ = false;
  std::uint64_t gap_at_;
  std::uint64_t registered_bytes_ = 0;
  Errc status_ = Errc::kOk;
  std::vector<std::unique_ptr<RingStep>> steps_;  // all that were made; reused
  std::vector<RingStep*> free_steps_;
};

}  // namespace spate::trove
