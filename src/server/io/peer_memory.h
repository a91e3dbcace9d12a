// SPDX-License-Identifier: Apache-2.0
// Buffers for direct streams, and the p2p path's memory of a PCI device: finds out which targets and peers can use it
// (docs/data-paths.md, "Direct", "p2p").
#pragma once

#include "server/io/parts.h"

namespace spate::io {

/// Makes the pool of peer memory and tries it with each target's device. Call it at the start; it may block for a read
/// or two.
void open_peer_memory(Parts& parts, metrics::Registry& metrics);

/// Makes the pool of buffers for the direct path if a target has direct access. The pool allocates a buffer when it is
/// first used.
void open_direct_memory(Parts& parts, metrics::Registry& metrics);

/// The reason why a stream between this target and this peer cannot use peer memory, in messages of `unit_bytes`.
/// Empty: it can.
std::string_view peer_refusal(const Parts& parts, const Target& target, bmi::Address peer, std::uint32_t unit_bytes);

/// The target's device has refused peer memory during a transfer. Logs it; the target never uses peer memory again.
void note_peer_refusal(Target& target);

}  // namespace spate::io
