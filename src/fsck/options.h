// SPDX-License-Identifier: Apache-2.0
// The options and the results of a check.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/ids.h"
#include "wire/check_messages.h"

namespace spate::fsck {

/// The copy on this target is the right one.
struct Trusted {
  TargetId target;
  Handle handle;  // of this file only; 0: of any
};

/// A value.
struct Options {
  bool repair = false;
  /// Also ask the io servers: datafiles that belong to nothing, sizes.
  bool data = true;
  /// Also compare the contents of the copies of mirrored files, which reads all of them. Needs `data`.
  bool contents = false;
  /// The most bytes a second that are read of each copy for `contents`; 0: no limit.
  std::uint64_t contents_rate = 100U << 20U;
  /// If two copies differ, the one on such a target is the right one, unless both are on such targets.
  std::vector<Trusted> trusted;
  /// Background work of servers counts as damage if it is older than this.
  Duration grace = std::chrono::seconds(60);
  /// Size of the table of inodes, bytes. With more inodes than fit, the entries are read several times. >= 4096.
  std::size_t table_bytes = 64U << 20U;
  /// Findings kept in one pass; more are for the next one (or, without repair, are only counted). >= 1.
  std::size_t max_findings = 100'000;
  /// With repair: the most times that the check runs again, until it repairs nothing.
  unsigned max_passes = 6;
  std::uint32_t page = wire::kMaxScanPage;  // records a request, 1..kMaxScanPage
};

enum class Outcome : std::uint8_t {
  kFound,  // and not repaired in this run
  kRepaired,
  kLeft,  // cannot be repaired, or not now: the note says why
};
constexpr std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kFound: return "found";
    case Outcome::kRepaired: return "repaired";
    case Outcome::kLeft: return "left";
  }
  return "unknown";
}

/// A confirmed finding and its outcome.
struct Report {
  wire::Finding finding;
  Outcome outcome = Outcome::kFound;
  std::string note;  // what was done, or what prevents the repair
  std::string path;  // of the object or entry, if the server knows it
};

enum class Phase : std::uint8_t { kInodes, kEntries, kRecords, kDatafiles, kContents, kRepairs };
constexpr std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::kInodes: return "inodes";
    case Phase::kEntries: return "names";
    case Phase::kRecords: return "other records";
    case Phase::kDatafiles: return "datafiles";
    case Phase::kContents: return "datafiles with copies";
    case Phase::kRepairs: return "findings";
  }
  return "unknown";
}

/// The progress of the check. Called once a page, and once for each datafile whose contents are compared.
struct Progress {
  unsigned pass = 1;
  Phase phase = Phase::kInodes;
  std::uint64_t done = 0;
  std::uint64_t expected = 0;  // an estimate; 0 = not known
};

/// Called on the executor that runs the check.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void found(const Report& report) = 0;
  virtual void progress(const Progress& progress) = 0;
};

struct Summary {
  unsigned passes = 0;
  // Numbers of the last pass.
  std::uint64_t inodes = 0;
  std::uint64_t entries = 0;
  std::uint64_t datafiles = 0;
  std::uint64_t unfinished = 0;  // background work that is not overdue
  std::uint64_t undecided = 0;   // suspicions about objects that clients kept changing
  // Findings.
  std::uint64_t found = 0;     // of the first pass, and new ones of later passes
  std::uint64_t repaired = 0;  // of all passes
  std::uint64_t left = 0;      // found and not repaired, as of the last pass
  std::uint64_t parents = 0;   // objects whose parent was unknown, and is no longer: that was no damage
  /// Servers whose part was not checked, and why. Not empty: the check is incomplete.
  std::vector<std::string> unchecked;

  /// As fsck(8): 0 clean, 1 repaired, 4 damage left, 8 incomplete; the sum of what applies.
  int exit_code() const { return (repaired > 0 ? 1 : 0) | (left > 0 ? 4 : 0) | (unchecked.empty() ? 0 : 8); }
};

}  // namespace spate::fsck
