// SPDX-License-Identifier: Apache-2.0
// Buffers of streams past the page cache; and the memory of a PCI device that the p2p path uses: which targets and
// peers it is of use for (docs/data-paths.md, "Direct", "p2p").
#pragma once

#include "server/io/parts.h"

namespace spate::io {

/// Makes the pool of it and tries it with each target's device. At the start; may block for a read or two.
void open_peer_memory(Parts& parts, metrics::Registry& metrics);

/// Makes the pool of the direct path's buffers, if there is a target with direct access. They take memory when they are
/// first used.
void open_direct_memory(Parts& parts, metrics::Registry& metrics);

/// Why a stream between this target and this peer cannot go by it, in messages of `unit_bytes`; empty: it can.
std::string_view peer_refusal(const Parts& parts, const Target& target, bmi::Address peer, std::uint32_t unit_bytes);

/// The target's device refused it after all: it is not asked again. Logged.
void note_peer_refusal(Target& target);

}  // namespace spate::io
