// SPDX-License-Identifier: Apache-2.0
// MirrorRun: random operations on mirrored files, while one io server at a time is in trouble, from one seed.
#pragma once

#include <cstdint>
#include <string>

#include "model/defect.h"

namespace spate::cluster {

struct MirrorRunOptions {
  std::uint64_t seed = 1;
  Defect defect = Defect::kNone;
  int faults = 6;
  bool verbose = false;
};

struct MirrorRunResult {
  std::string failure;  // empty: everything was as it has to be
  std::uint64_t operations = 0;
};

/// Clients write, read, cut and sync a few files. No call may fail, each read must see what the model of the contract
/// allows, and in the end the copies of all datafiles are equal.
MirrorRunResult run_mirrored(const MirrorRunOptions& options);

}  // namespace spate::cluster
