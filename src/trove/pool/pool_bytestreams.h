// SPDX-License-Identifier: Apache-2.0
// The pool module: plain system calls, by the target's threads where they may block.
#pragma once

#include "trove/local_bytestreams.h"

namespace spate::trove {

class PoolBytestreams final : public LocalBytestreams {
 public:
  explicit PoolBytestreams(std::shared_ptr<LocalTarget> target, LocalBytestreamsOptions options = {})
      : LocalBytestreams(std::move(target), options) {}
  std::string describe() const override { return "pool"; }
};

}  // namespace spate::trove
