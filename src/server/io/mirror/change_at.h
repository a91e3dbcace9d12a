// SPDX-License-Identifier: Apache-2.0
// Changes a datafile on its target, or on all members of its group.
#pragma once

#include "server/io/mirror/primary_term.h"

namespace spate::io {

/// Runs the change on the target, or on all members of the group. The memory behind the request's spans outlives the
/// task.
job::Task<Result<trove::BytestreamCompletion>> change_at(Place place, trove::BytestreamRequest request,
                                                         MirrorExtras extras, flow::Asker asker, job::StopToken stop);

/// The writes of one stream to a group. It outlives the stream's flow. Pinned.
class MirrorWriter final : public flow::WriteCarrier {
 public:
  MirrorWriter(Place place, flow::Asker asker) : place_(std::move(place)), asker_(asker) {}
  MirrorWriter(const MirrorWriter&) = delete;
  MirrorWriter& operator=(const MirrorWriter&) = delete;
  /// Null for a target by itself.
  flow::WriteCarrier* used() { return place_.term == nullptr ? nullptr : this; }

  job::Task<Result<trove::BytestreamCompletion>> write(trove::BytestreamRequest request, job::StopToken stop) override;

 private:
  const Place place_;
  const flow::Asker asker_;
};

}  // namespace spate::io
