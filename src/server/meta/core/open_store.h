// SPDX-License-Identifier: Apache-2.0
// Opens the store of a meta server: checks that it belongs to the server, or makes a new name space.
#pragma once

#include "base/random.h"
#include "job/storage.h"
#include "server/meta/core/options.h"
#include "server/meta/store/keys.h"

namespace spate::meta {

/// Reads the superblock, or makes it and the root directory in an empty store. Yields the hash that places names in
/// the store. kWrongFileSystem, kFormatTooNew, kCorrupt, kNotFound: the store is not ours, and nothing was changed. The
/// arguments outlive the task.
job::Task<Result<NameHash>> open_store(job::KeyvalContext& store, const MetaOptions& options, Random& random);

}  // namespace spate::meta
