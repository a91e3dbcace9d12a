// SPDX-License-Identifier: Apache-2.0
// PolledLinks: the links that the shm module reads in each turn.
#pragma once

#include <cstddef>
#include <vector>

#include "bmi/shm/link.h"

namespace spate::bmi::shm {

/// The module's lock guards it. Peers of links that are not polled ring a bell when they have written something. No
/// link is polled while a thread sleeps.
class PolledLinks {
 public:
  bool empty() const { return links_.empty(); }
  std::size_t size() const { return links_.size(); }
  /// Polls `link`, which is open, from now on. It counts as busy.
  void add(Link& link);
  void remove(Link& link);

  /// A turn of every link's control lane. Returns whether anything was done.
  bool turn_control();
  /// A turn of one link's bulk lane. Control messages of all peers come before the bulk data of the next one.
  bool turn_bulk();
  /// If there are many links, those without work are polled no more. Call it when no peer is marked as lost.
  void rest_idle();
  /// Polls no link any more, because a thread goes to sleep. False: there is work, and all links stay polled.
  bool rest_all();

 private:
  bool rests(Link& link) const;

  std::vector<Link*> links_;
  std::size_t next_bulk_ = 0;  // index in links_ of the link whose bulk lane comes first
};

}  // namespace spate::bmi::shm
