// SPDX-License-Identifier: Apache-2.0
// RocksDB's options as Spate sets them.
#pragma once

#include <rocksdb/options.h>

#include "trove/rocksdb/rocksdb_keyval.h"

namespace spate::trove {

rocksdb::Options rocksdb_options(const RocksdbOptions& options);

}  // namespace spate::trove
