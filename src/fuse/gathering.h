// SPDX-License-Identifier: Apache-2.0
// Gathered writes of a mount (docs/mount.md, "Gathered writes"): which writes, and what they must be sent before.
#pragma once

#include "client/session/gather_memory.h"
#include "fuse/mount.h"

namespace spate::fuse {

/// Whether the mount may acknowledge a write with this open before the servers have it.
bool may_gather(const fuse_file_info& info);
/// How a write is sent that the mount may acknowledge before the servers have it. Null: it must be sent at once.
client::FileGather* gathering(const Mount& mount, const OpenFile& open, const fuse_file_info& info);

/// close(2): waits until the servers have what was gathered for the file. The error of a gathered write is told once.
Result<void> send_gathered(fuse_req_t request, client::File& file);
/// A lock is released or taken: others learn that they may look at what was written before.
void send_all_gathered(Mount& mount);
/// Waits, for `limit` at most, until the servers have all.
bool send_all_gathered(Mount& mount, Duration limit);
/// The mount ends: the log names what the servers do not have, which is lost.
void lose_all_gathered(Mount& mount);
/// No other process would send what this one gathers: from now on it gathers nothing. Waits, for `limit` at most, until
/// the servers have all.
void end_gathering(Mount& mount, Duration limit);

/// Sends what an earlier process has gathered. Call it before the first request of the kernel is read. Waits for
/// servers that are away, as the calls do that would follow. A failure is logged, and reported by the next fsync
/// or close of the file.
void send_inherited(Mount& mount, client::GatherMemory& memory);
/// The log names what is left of it, which is lost. May be called by any thread during send_inherited().
void lose_inherited(Mount& mount, const client::GatherMemory& memory);
/// From now on the log names files.
void name_gathered(Mount& mount);

}  // namespace spate::fuse
