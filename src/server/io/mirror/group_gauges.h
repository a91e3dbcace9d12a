// SPDX-License-Identifier: Apache-2.0
// GroupGauges: metrics of the groups of a server.
#pragma once

#include <cstdint>

#include "metrics/metrics.h"
#include "server/io/mirror/mirror_group.h"
#include "server/io/mirror/primary_term.h"

namespace spate::io {

/// Shows the state at the last call of show().
class GroupGauges {
 public:
  explicit GroupGauges(metrics::Registry& metrics)
      : led_(metrics, "spate_server_io_groups_led"),
        degraded_(metrics, "spate_server_io_groups_led_degraded"),
        to_copy_(metrics, "spate_server_io_regions_to_copy"),
        leftover_(metrics, "spate_server_io_groups_leftover"),
        without_room_(metrics, "spate_server_io_groups_without_room") {}

  void show(const MirrorGroups& groups) {
    std::int64_t led = 0;
    std::int64_t degraded = 0;
    std::int64_t to_copy = 0;
    std::int64_t leftover = 0;
    std::int64_t without_room = 0;
    for (const auto& [id, group] : groups) {
      if (group->has_old_copies()) ++leftover;
      if (group->term == nullptr) continue;
      ++led;
      if (group->term->lacks_room()) ++without_room;
      if (!group->record.is_whole()) ++degraded;
      to_copy += static_cast<std::int64_t>(group->term->to_copy());
    }
    led_.set(led);
    degraded_.set(degraded);
    to_copy_.set(to_copy);
    leftover_.set(leftover);
    without_room_.set(without_room);
  }

 private:
  metrics::Gauge led_;
  metrics::Gauge degraded_;
  metrics::Gauge to_copy_;
  metrics::Gauge leftover_;
  metrics::Gauge without_room_;
};

}  // namespace spate::io
