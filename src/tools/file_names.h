// SPDX-License-Identifier: Apache-2.0
// FileNames: the paths of files of which only the handles are known.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "assembly/client_process.h"
#include "tools/load_table.h"

namespace spate::tools {

/// A file's record does not hold its path, and servers of file data know handles only. So this looks for the handles in
/// the tree, directory by directory from the root down, and in no more than kMostNames names at a time. It keeps what
/// it has found, and what it has not found, for kKept. One thread.
class FileNames {
 public:
  static constexpr std::size_t kMostNames = 20'000;
  static constexpr Duration kKept = std::chrono::seconds(60);

  explicit FileNames(assembly::ClientProcess& process) : process_(process), begun_(process.clock().now()) {}

  /// Sets the path of the first `most` rows of files; that of a file which is not found stays empty.
  void name(std::vector<LoadRow>& rows, std::size_t most);

 private:
  void search(std::set<Handle> wanted);

  assembly::ClientProcess& process_;
  MonoTime begun_;
  std::map<Handle, std::string> known_;  // empty: not found
};

}  // namespace spate::tools
