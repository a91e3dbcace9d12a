// SPDX-License-Identifier: Apache-2.0
// The end of a run: when all faults are mended, everything must be there that must exist, and nothing else.
#pragma once

#include <set>

#include "tests/cluster/scene.h"

namespace spate::cluster {

/// Waits until the servers have no background work left. All servers must be up, all faults mended, and all clients
/// ended. Fails the scene if work remains after ten minutes.
void wait_until_settled(Scene& scene);

/// Call it next. Walks through the file system as a new client, compares it with the models, and checks the stores.
/// `forgotten`: files that a crash of the meta server's machine has made non-existent.
void verify(Scene& scene, const std::set<std::uint64_t>& forgotten);

}  // namespace spate::cluster
