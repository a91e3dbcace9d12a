// SPDX-License-Identifier: Apache-2.0
// Coordinator: the service that keeps the records of groups (docs/availability.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "job/stop.h"
#include "job/task.h"

namespace spate::coord {

/// A record's value, and the `revision` of the change that gave the record this value.
struct Record {
  std::string key;
  Bytes value;
  std::uint64_t revision = 0;
};

/// The records at one moment.
struct Snapshot {
  std::uint64_t revision = 0;  // of the last change of any record
  std::vector<Record> records;

  /// Null if there is none.
  const Record* find(const std::string& key) const {
    for (const Record& record : records) {
      if (record.key == key) return &record;
    }
    return nullptr;
  }
};

/// An atomic change: it is made only if each compared record has that revision (0: the record does not exist).
struct Change {
  struct Compare {
    std::string key;
    std::uint64_t revision = 0;
  };
  struct Put {
    std::string key;
    Bytes value;
  };
  std::vector<Compare> compares;
  std::vector<Put> puts;
  std::vector<std::string> erases;

  Change& compare(std::string key, std::uint64_t revision) {
    compares.push_back({std::move(key), revision});
    return *this;
  }
  Change& put(std::string key, Bytes value) {
    puts.push_back({std::move(key), std::move(value)});
    return *this;
  }
};

/// Most keys in one change: etcd accepts no more operations in a transaction.
inline constexpr std::size_t kMaxChangeKeys = 128;

/// Any number of calls at once, on one executor. Each ends within a few seconds, or when `stop` fires. The object must
/// outlive its calls.
class Coordinator {
 public:
  virtual ~Coordinator() = default;

  /// Yields all records whose keys begin with `prefix`, as they were at some moment during the call, never older.
  /// kUnreachable, kTimeout: the service is not available; ask again.
  virtual job::Task<Result<Snapshot>> read(std::string prefix, job::StopToken stop) = 0;

  /// Yields the new revision. kConflict: a compared record has another revision, and nothing was changed. kTimeout: the
  /// outcome is unknown, and reading does not settle it, since the change may be made *later*. It is settled when a
  /// compared record has another revision; a caller that must know makes another change from the same revision. All
  /// other errors: nothing was changed, and nothing will be.
  virtual job::Task<Result<std::uint64_t>> change(Change change, job::StopToken stop) = 0;
};

}  // namespace spate::coord
