// SPDX-License-Identifier: Apache-2.0
// The processes of one measurement: they are forked, pinned to processors, and meet at barriers.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace spate::bench {

/// The view of one process on the group that it is part of. If one process fails, the whole group ends.
class Group {
 public:
  /// Runs `body(group, rank)` in `size` processes, rank r on processor r modulo the number of processors. Returns their
  /// results by rank. Call it before the process starts threads.
  static std::vector<double> run(int size, const std::function<double(Group&, int rank)>& body);

  /// Waits until all processes of the group have called it.
  void barrier();
  /// Publishes a line under this rank, which other processes read with hear(rank) after a barrier. Under 4,096 bytes.
  void tell(int rank, const std::string& text);
  std::string hear(int rank) const;

 private:
  struct Shared;
  explicit Group(Shared& shared) : shared_(shared) {}

  Shared& shared_;
  int turn_ = 0;
};

}  // namespace spate::bench
