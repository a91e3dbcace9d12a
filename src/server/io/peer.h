// SPDX-License-Identifier: Apache-2.0
// Buffers of streams past the page cache; and the memory of a PCI device that the p2p path uses: which targets and
// peers it is of use for (docs/data-paths.md, "Direct", "p2p").
#pragma once

#include "server/io/parts.h"

namespace spate::io {

/// Makes the pool of peer memory and tries it with each target's device. Call it at the start; it may block for a read
/// or two.
void open_peer_memory(Parts& parts, metrics::Registry& metrics);

/// Makes the pool of the direct path's buffers, if a target has direct access. A buffer takes memory when it is first
/// used.
void open_direct_memory(Parts& parts, metrics::Registry& metrics);

/// Why a stream between this target and this peer cannot use peer memory, in messages of `unit_bytes`. Empty: it can.
std::string_view peer_refusal(const Parts& parts, const Target& target, bmi::Address peer, std::uint32_t unit_bytes);

/// The target's device has refused peer memory after all. Logs it and never tries this target again.
void note_peer_refusal(Target& target);

}  // namespace spate::io
