// SPDX-License-Identifier: Apache-2.0
// PolledLinks: the links that the shm module reads each turn.
#pragma once

#include <cstddef>
#include <vector>

#include "bmi/shm/link.h"

namespace spate::bmi::shm {

/// The peers of the other links ring a bell when they have written something. When a thread goes to sleep, no link is
/// polled. The module's lock guards it.
class PolledLinks {
 public:
  bool empty() const { return links_.empty(); }
  std::size_t size() const { return links_.size(); }
  /// `link`, open, is polled from now on, as one that has just been busy.
  void add(Link& link);
  void remove(Link& link);

  /// A turn of every link's control lane. Returns whether anything was done.
  bool turn_control();
  /// A turn of one link's bulk lane: control messages of all peers come before the next one's.
  bool turn_bulk();
  /// Links without work do not stay, if they are many. Call it when no peer is to be lost.
  void rest_idle();
  /// None stays: somebody goes to sleep. False: there is work, and all of them stay.
  bool rest_all();

 private:
  bool rests(Link& link) const;

  std::vector<Link*> links_;
  std::size_t next_bulk_ = 0;  // of links_: whose bulk comes first
};

}  // namespace spate::bmi::shm
