// SPDX-License-Identifier: Apache-2.0
// The end of a run: when all is healed and quiet, is everything there that must be, and nothing that must not?
#pragma once

#include <set>

#include "tests/cluster/scene.h"

namespace spate::cluster {

/// Waits until the servers have nothing left to do (fails the scene when that does not come), then walks through the
/// whole file system as a new client, compares it with the models, and looks into the stores. All servers run and
/// nothing is in the way. `forgotten`: files whose making a crash of the meta server's machine has taken back.
void verify(Scene& scene, const std::set<std::uint64_t>& forgotten);

}  // namespace spate::cluster
