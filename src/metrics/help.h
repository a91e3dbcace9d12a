// SPDX-License-Identifier: Apache-2.0
// What each metric of Spate means, for people who read a page of metrics.
#pragma once

#include <string_view>

namespace spate::metrics {

/// One line, without a backslash. Empty for a name that is not known. Pure.
std::string_view help_of(std::string_view name);

}  // namespace spate::metrics
