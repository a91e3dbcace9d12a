// SPDX-License-Identifier: Apache-2.0
// The end of a run: when all is healed and quiet, is everything there that must be, and nothing that must not?
#pragma once

#include <set>

#include "tests/cluster/scene.h"

namespace spate::cluster {

/// Waits until the servers have nothing left to do; fails the scene when that does not come. All servers run, nothing
/// is in the way, and the clients have gone.
void wait_until_settled(Scene& scene);

/// Then: walks through the whole file system as a new client, compares it with the models, and looks into the stores.
/// `forgotten`: files whose making a crash of the meta server's machine has taken back.
void verify(Scene& scene, const std::set<std::uint64_t>& forgotten);

}  // namespace spate::cluster
