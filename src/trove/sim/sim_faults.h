// SPDX-License-Identifier: Apache-2.0
// SimFaults: decides which operations of a simulated disk fail.
#pragma once

#include <map>
#include <vector>

#include "base/check.h"
#include "trove/bytestream.h"

namespace spate::trove {

/// Deterministic. A fault fires once, a refusal each time.
class SimFaults {
 public:
  /// The `nth` (>= 1) operation of this kind from now on fails with `status`.
  void inject(BytestreamOp op, std::uint64_t nth, Errc status) {
    SPATE_CHECK(nth >= 1);
    faults_.push_back({op, nth, status});
  }
  /// Each operation of this kind fails with `status` from now on.
  void refuse(BytestreamOp op, Errc status) { refused_[op] = status; }
  void clear() {
    faults_.clear();
    refused_.clear();
  }

  /// kOk: operations of this kind are not refused.
  Errc refusal(BytestreamOp op) {
    const auto found = refused_.find(op);
    if (found == refused_.end()) return Errc::kOk;
    ++refusals_;
    return found->second;
  }
  /// How many operations were refused.
  std::uint64_t refusals() const { return refusals_; }
  /// Counts one operation that is carried out. kOk: no fault fires.
  Errc next(BytestreamOp op) {
    Errc status = Errc::kOk;
    for (Fault& fault : faults_) {
      if (fault.op == op && --fault.left == 0) status = fault.status;
    }
    std::erase_if(faults_, [](const Fault& fault) { return fault.left == 0; });
    return status;
  }

 private:
  struct Fault {
    BytestreamOp op;
    std::uint64_t left;
    Errc status;
  };
  std::map<BytestreamOp, Errc> refused_;
  std::uint64_t refusals_ = 0;
  std::vector<Fault> faults_;
};

}  // namespace spate::trove
