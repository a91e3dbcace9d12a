// SPDX-License-Identifier: Apache-2.0
// VersionedMap: an ordered map that can be read as it was at earlier versions. The store of kvmem and kvsim.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "trove/conflict_window.h"
#include "trove/key_order.h"
#include "trove/transaction_state.h"
#include "trove/write_set.h"

namespace spate::trove {

/// Not thread-safe.
class VersionedMap {
 public:
  /// Applies a commit. `version` grows from call to call; nobody will read at versions before `oldest` any more.
  void apply(Version version, Batch batch, Version oldest);

  /// Null when there is none. Valid until the next apply().
  const Bytes* get(ByteView key, Version at) const;
  /// Up to `wanted` entries of [begin, end).
  StoreEntries range(ByteView begin, ByteView end, std::size_t wanted, Version at) const;

  /// Keys held, erased ones that may still be read at an older version included.
  std::size_t size() const { return map_.size(); }

 private:
  struct Stored {
    Version version;
    std::optional<Bytes> value;
  };
  using Map = std::map<Bytes, std::vector<Stored>, KeyLess>;
  struct Superseded {
    Version by;
    Map::iterator entry;
  };

  static const Bytes* value_at(const std::vector<Stored>& versions, Version at);
  void clean(Version oldest);

  Map map_;
  // Entries that clean() examines, in version order. An entry of the map lives as long as its latest version is listed
  // here.
  std::deque<Superseded> superseded_;
};

}  // namespace spate::trove
