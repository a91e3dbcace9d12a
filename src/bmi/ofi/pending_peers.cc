// SPDX-License-Identifier: Apache-2.0
#include "bmi/ofi/pending_peers.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "base/check.h"

namespace spate::bmi::ofi {

bool PendingPeers::open() {
  wake_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return static_cast<bool>(wake_);
}

void PendingPeers::wake() {
  if (!sleeping_ || std::exchange(woken_, true)) return;
  const std::uint64_t one = 1;
  SPATE_CHECK(::write(wake_.get(), &one, sizeof one) == sizeof one);
}

void PendingPeers::awake() {
  sleeping_ = false;
  std::uint64_t count = 0;
  if (std::exchange(woken_, false)) [[maybe_unused]]
    const auto drained = ::read(wake_.get(), &count, sizeof count);
}

void PendingPeers::keep_turning(Peer& peer) {
  if (std::exchange(peer.turning, true)) return;
  turning_.push_back(&peer);
  wake();
}

void PendingPeers::forget(Peer& peer) {
  if (std::exchange(peer.turning, false)) std::erase(turning_, &peer);
}

void PendingPeers::begin_parting(Duration timeout) {
  if (parted_by_ == MonoTime::never()) parted_by_ = clock_.now() + timeout;
  sweep_soon();
}

}  // namespace spate::bmi::ofi
