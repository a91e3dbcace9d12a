// SPDX-License-Identifier: Apache-2.0
// MirrorRun: random operations on mirrored files from one seed, while one io server at a time is in trouble.
#pragma once

#include <cstdint>
#include <string>

#include "model/defect.h"

namespace spate::cluster {

struct MirrorRunOptions {
  std::uint64_t seed = 1;
  Defect defect = Defect::kNone;
  int faults = 6;
  bool large = false;      // writes of up to 320 kB, in messages of 64 KiB, many of them at whole granules of the locks
  bool reserving = false;  // clients reserve space, too
  bool replacing = false;  // servers stay away for so long that others take their places
  std::uint32_t min_copies = 1;  // as many as a write needs
  bool verbose = false;
};

struct MirrorRunResult {
  std::string failure;  // empty: all results were right
  std::uint64_t operations = 0;
};

/// Clients write, read, truncate and sync a few files. No call may fail, each read must agree with the model of the
/// contract, and in the end the copies of all datafiles must be equal.
MirrorRunResult run_mirrored(const MirrorRunOptions& options);

}  // namespace spate::cluster
