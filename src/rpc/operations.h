// SPDX-License-Identifier: Apache-2.0
// Operations: the rows of all services of a server, with their metrics.
#pragma once

#include <memory>
#include <unordered_map>

#include "metrics/metrics.h"
#include "rpc/service.h"

namespace spate::rpc {

/// A row of the table with its metrics.
struct Operation {
  Operation(metrics::Registry& registry, wire::Op op, const OperationRow& row_in)
      : row(row_in),
        failed(registry, "spate_rpc_failed_total", {{"op", std::string(op_name(op))}}),
        latency(registry, "spate_rpc_request_ns", {{"op", std::string(op_name(op))}}) {}
  OperationRow row;
  metrics::Counter failed;
  metrics::Histogram latency;
};

/// One per server. Filled before the first request.
class Operations {
 public:
  explicit Operations(metrics::Registry& registry) : registry_(registry) {}

  void add(const Service& service) {
    for (const auto& [op, row] : service.operations()) {
      const bool fresh = operations_.emplace(op, std::make_unique<Operation>(registry_, op, row)).second;
      SPATE_CHECK(fresh);  // each operation belongs to one role only
    }
  }
  /// Null: no role of this server serves it.
  Operation* find(wire::Op op) const {
    const auto found = operations_.find(op);
    return found == operations_.end() ? nullptr : found->second.get();
  }

 private:
  metrics::Registry& registry_;
  std::unordered_map<wire::Op, std::unique_ptr<Operation>> operations_;
};

}  // namespace spate::rpc
