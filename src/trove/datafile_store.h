// SPDX-License-Identifier: Apache-2.0
// DatafileStore: finds, makes and removes LocalDatafiles. Behind the modules that keep datafiles in the kernel's files.
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
  /// As open(id, false), but kTryAgain when that might block.
  virtual Result<Datafile> try_open(const DatafileId& id) = 0;
  /// Opens it, making it (size 0, mode 0600) if `create`. kNotFound without. Two that create at once get the same one.
  virtual Result<Datafile> open(const DatafileId& id, bool create) = 0;
  /// Its name is gone afterwards, and a later open makes a new one; those who hold it keep it. kOk when there was none.
  virtual Errc remove(const DatafileId& id) = 0;
  /// The datafile's content in a new local file under its name, durable before it takes the old one's place. Those who
  /// hold the old one keep it, and nobody else will. kOk when there is none. Nobody may be changing it meanwhile.
  virtual Errc replace(const DatafileId& /*id*/) { return Errc::kNotSupported; }
  /// Makes the existence, or absence, of the name durable.
  virtual Errc sync_entry(const DatafileId& id) = 0;

  /// Asked before extents are written or allocated: kNoSpace keeps the file as it is. The kernel's file systems keep
  /// their own account.
  virtual Errc admit(LocalDatafile& /*datafile*/, std::span<const Extent> /*extents*/) { return Errc::kOk; }
  /// Told after each change, with what fstat says then.
  virtual void changed(LocalDatafile& /*datafile*/, const BytestreamStat& /*stat*/) {}
};

}  // namespace spate::trove
