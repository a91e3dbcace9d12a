// SPDX-License-Identifier: Apache-2.0
// The text of findings. docs/fsck.md explains each.
#pragma once

#include <string>
#include <string_view>

#include "fsck/options.h"

namespace spate::fsck {

/// What the finding is about: "spate:/a/b", "object 77", "target 513, d/3d/000000000000004d.0".
std::string subject(const Report& report);
/// What is wrong with it, as the rest of a sentence: "leads to object 77, which is not there".
std::string complaint(const Report& report);
/// What --repair does about it, as a sentence without its end; empty when nothing can be done.
std::string_view remedy(wire::Damage damage);

}  // namespace spate::fsck
