// SPDX-License-Identifier: Apache-2.0
#include "bmi/shm/polled_links.h"

#include <algorithm>
#include <utility>

#include "bmi/shm/peer.h"

namespace spate::bmi::shm {
namespace {

// This many links are read in each turn, however idle they are, because that costs less than a bell.
constexpr std::size_t kAlwaysPolled = 8;
constexpr std::uint32_t kIdleTurns = 64;  // after this many idle turns the other links rest

}  // namespace

void PolledLinks::add(Link& link) {
  link.idle_turns = 0;
  if (std::exchange(link.polled, true)) return;
  link.wait_no_more(kWakeFrames);
  links_.push_back(&link);
}

void PolledLinks::remove(Link& link) {
  if (std::exchange(link.polled, false)) std::erase(links_, &link);
}

bool PolledLinks::turn_control() {
  bool did = false;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link& link = *links_[i];
    ++link.idle_turns;
    if (!link.peer->has_turn(MessageClass::kControl)) continue;
    // A caller that waits for an answer gets it at once. Looking for a second one would wait for a cache line that the
    // other side owns.
    const int frames = link.idle_turns > 1 ? 1 : Peer::kFramesInATurn;
    if (!link.peer->turn(MessageClass::kControl, frames)) continue;
    link.peer->announce_progress();
    link.idle_turns = 0;
    did = true;
  }
  return did;
}

bool PolledLinks::turn_bulk() {
  const std::size_t count = links_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = next_bulk_ + i;
    Link& link = *links_[at < count ? at : at % count];  // a division would cost more than the look
    if (!link.peer->has_pulls() && !link.peer->has_turn(MessageClass::kBulk)) continue;
    const bool pulled = link.peer->turn_pulls();
    if (!link.peer->turn(MessageClass::kBulk) && !pulled) continue;
    // A copy ended, and its answer goes by the control lane.
    if (pulled) link.peer->turn(MessageClass::kControl);
    link.peer->announce_progress();
    link.idle_turns = 0;
    next_bulk_ = (next_bulk_ + i + 1) % count;
    return true;
  }
  return false;
}

bool PolledLinks::rests(Link& link) const {
  if (link.idle_turns < kIdleTurns) return false;
  link.wait_for(kWakeFrames);
  if (link.peer->quiet()) return true;
  link.wait_no_more(kWakeFrames);
  link.idle_turns = 0;
  return false;
}

void PolledLinks::rest_idle() {
  if (links_.size() <= kAlwaysPolled) return;
  for (std::size_t i = links_.size(); i-- > 0;) {
    if (rests(*links_[i])) remove(*links_[i]);
  }
}

bool PolledLinks::rest_all() {
  for (Link* link : links_) link->wait_for(kWakeFrames);
  if (!std::ranges::all_of(links_, [](Link* link) { return link->peer->quiet(); })) {
    for (Link* link : links_) link->wait_no_more(kWakeFrames);
    return false;
  }
  for (Link* link : links_) link->polled = false;
  links_.clear();
  return true;
}

}  // namespace spate::bmi::shm
