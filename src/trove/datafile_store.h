// SPDX-License-Identifier: Apache-2.0
// DatafileStore: finds, makes and removes LocalDatafiles. The modules that keep datafiles in the kernel's file systems
// use it.
#pragma once

#include <memory>
#include <span>

#include "trove/local_datafile.h"

namespace spate::trove {

/// Thread-safe.
class DatafileStore {
 public:
  using Datafile = std::shared_ptr<LocalDatafile>;
  virtual ~DatafileStore() = default;

  /// The datafile if it is open already; null otherwise. Never blocks.
  virtual Datafile find(const DatafileId& id) = 0;
  /// Like open(id, false), but kTryAgain when that might block.
  virtual Result<Datafile> try_open(const DatafileId& id) = 0;
  /// Opens the datafile. With `create` it makes it if needed (size 0, mode 0600); without, kNotFound. Two callers that
  /// create it at the same time get the same object.
  virtual Result<Datafile> open(const DatafileId& id, bool create) = 0;
  /// Removes the name; a later open makes a new datafile. Holders of the old object keep it. kOk if there was none.
  virtual Errc remove(const DatafileId& id) = 0;
  /// Copies the content to a new local file, which takes the name when it is durable. Holders of the old object keep
  /// it; later callers get the new one. kOk if there is none. The content must not change meanwhile.
  virtual Errc replace(const DatafileId& /*id*/) { return Errc::kNotSupported; }
  /// Makes the existence, or absence, of the name durable.
  virtual Errc sync_entry(const DatafileId& id) = 0;

  /// Callers ask it before they write or allocate extents. kNoSpace: the file stays as it is. Default: kOk, since the
  /// kernel's file systems count their own space.
  virtual Errc admit(LocalDatafile& /*datafile*/, std::span<const Extent> /*extents*/) { return Errc::kOk; }
  /// Callers report each change, with the result of fstat.
  virtual void changed(LocalDatafile& /*datafile*/, const BytestreamStat& /*stat*/) {}
};

}  // namespace spate::trove
