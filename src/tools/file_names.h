// SPDX-License-Identifier: Apache-2.0
// FileNames: finds the paths of files by their handles.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "assembly/client_process.h"
#include "tools/load_table.h"

namespace spate::tools {

/// A file's record does not hold its path, and io servers know files by handle only. So this class searches the tree
/// for the handles, directory by directory from the root down, and ends a search after about kMostNames names. It keeps
/// results for at most kKept, also that a handle was not found. One thread; `process` outlives it.
///
/// If a row is not known yet, name() searches and waits for the servers, one directory after the other. It cannot fail:
/// it leaves out directories that this user may not list and those for which a request fails. If a file is renamed, its
/// old path is shown for at most kKept.
class FileNames {
 public:
  static constexpr std::size_t kMostNames = 20'000;
  static constexpr Duration kKept = std::chrono::seconds(60);

  explicit FileNames(assembly::ClientProcess& process) : process_(process), begun_(process.clock().now()) {}

  /// Sets the paths of the first `most` rows. A row whose file is not found gets an empty path.
  void name(std::vector<LoadRow>& rows, std::size_t most);

 private:
  void search(std::set<Handle> wanted);

  assembly::ClientProcess& process_;
  MonoTime begun_;
  std::map<Handle, std::string> known_;  // empty: not found
};

}  // namespace spate::tools
