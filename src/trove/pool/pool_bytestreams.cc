// SPDX-License-Identifier: Apache-2.0
#include "trove/pool/pool_bytestreams.h"

namespace spate::trove {

PoolBytestreams::PoolBytestreams(std::shared_ptr<LocalTarget> target, LocalBytestreamsOptions options)
    : LocalBytestreams(std::move(target), options) {}

std::string PoolBytestreams::describe() const { return "pool"; }

}  // namespace spate::trove
