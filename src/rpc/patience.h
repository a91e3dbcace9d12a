// SPDX-License-Identifier: Apache-2.0
// Patience: how much longer than usual a peer may take to answer, because its network has been slow of late.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace spate::rpc {

/// The factor by which a wait for an answer is longer than usual. A wait that is too short for a slow network would end
/// in vain for ever, since each attempt begins with a new connection. So the factor doubles after each wait that ended
/// in vain, up to `most`, and halves after an answer that came soon enough.
///
/// The first `spared` waits in vain after an answer leave it as it is: a server that has died costs no more time than
/// on a network that was never slow.
class Patience {
 public:
  Patience(std::uint32_t most, std::uint32_t spared) : most_(most), spared_(spared), left_(spared) {}

  std::uint32_t factor() const { return factor_; }
  /// A wait that began with this factor has ended in vain. Of several waits at the same time only the first one counts.
  void expired(std::uint32_t factor) {
    if (factor < factor_) return;
    if (left_ > 0) {
      --left_;
      return;
    }
    factor_ = std::min(factor_ * 2, most_);
  }
  /// An answer came after `took`. `usual`: the wait with factor 1.
  void answered(Duration took, Duration usual) {
    left_ = spared_;
    if (factor_ > 1 && took * 2 <= usual * (factor_ / 2)) factor_ /= 2;
  }

 private:
  std::uint32_t most_;  // a power of two
  std::uint32_t spared_;
  std::uint32_t left_;
  std::uint32_t factor_ = 1;
};

}  // namespace spate::rpc
