// SPDX-License-Identifier: Apache-2.0
// The text of findings. docs/fsck.md explains each.
#pragma once

#include <string>
#include <string_view>

#include "fsck/options.h"

namespace spate::fsck {

/// The object of the finding: "spate:/a/b", "object 77", "target 513, d/3d/000000000000004d.0".
std::string subject(const Report& report);
/// The damage, as the rest of a sentence: "leads to object 77, which is not there".
std::string complaint(const Report& report);
/// The repair by --repair, as a sentence without its end; empty if there is none.
std::string_view remedy(wire::Damage damage);

}  // namespace spate::fsck
