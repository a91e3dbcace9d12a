// SPDX-License-Identifier: Apache-2.0
// Beacons: a primary's regular messages to the other members (docs/availability.md, "Mirrored data").
#pragma once

#include "job/gate.h"
#include "server/io/mirror/forwarder.h"
#include "server/io/mirror/mirror_group.h"

namespace spate::io {

/// One message to each server, for all groups that its targets and those of this server share. The answers tell which
/// members are there, which of them lack data, and until when this primary may lead.
///
/// One executor; pinned. Its tasks end early when `stopping` fires. What the constructor takes outlives it.
class Beacons {
 public:
  /// `gate` holds what is under way.
  Beacons(MirrorHost& host, job::StopSource& stopping, job::Gate& gate)
      : host_(host), stopping_(stopping), gate_(gate) {}
  Beacons(const Beacons&) = delete;
  Beacons& operator=(const Beacons&) = delete;

  void send(const MirrorGroups& groups);
  /// Asks the other members of the record, all at once, whether one knows a later record. False if none says so in
  /// time.
  job::Task<bool> is_outdated(DataGroup record, TargetId self, Duration time);

 private:
  job::Task<void> ask_one(ServerId server, const DataGroup& record, MonoTime deadline, bool& later);
  job::Task<void> send_to(ServerId server, wire::MirrorBeaconRequest request);
  void note_answer(TargetId group, ServerId server, const wire::BeaconAnswer& answer, MonoTime sent);

  MirrorHost& host_;
  job::StopSource& stopping_;
  job::Gate& gate_;
};

}  // namespace spate::io
