// SPDX-License-Identifier: Apache-2.0
// basic: the whole file on one target. Source: OrangeFS's distribution of that name.
#pragma once

#include "dist/type.h"

namespace spate {

/// "basic", without parameters. New files get one slot, whatever number of targets their directory asks for.
const DistributionType& basic_type();

}  // namespace spate
