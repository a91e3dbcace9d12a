// SPDX-License-Identifier: Apache-2.0
// The processes of one measurement: forked, pinned, in step.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace spate::bench {

/// What a process of a group has of the others. A process that fails ends the whole group.
class Group {
 public:
  /// Runs `body(group, rank)` in `size` processes, rank r on processor r modulo their number, and gives what each
  /// returned. Call before the process has threads.
  static std::vector<double> run(int size, const std::function<double(Group&, int rank)>& body);

  /// Everybody waits for everybody.
  void barrier();
  /// Says a line to all; everybody else gets it from hear(). At most 4,000 bytes.
  void tell(int rank, const std::string& text);
  std::string hear(int rank) const;

 private:
  struct Shared;
  explicit Group(Shared& shared) : shared_(shared) {}

  Shared& shared_;
  int turn_ = 0;
};

}  // namespace spate::bench
