// SPDX-License-Identifier: Apache-2.0
// The commands of `spate coord` that change the coordinator's record of the meta servers.
#pragma once

#include <string>
#include <vector>

#include "tools/context.h"

namespace spate::tools {

/// `spate coord begin`: replaces an etcd cluster that most of its members have lost by a new one, whose only member is
/// that of this machine. Its earlier records are kept beside the new ones. Returns the exit code.
int begin_cluster(Context& context);

/// `spate coord min`: how many meta servers must hold a change before it is answered. Writes the number into the
/// coordinator's record of the meta servers. An empty word: shows the record's number. Returns the exit code.
int min_copies_of_names(Context& context, const std::string& word);

struct RestoreOptions {
  std::vector<std::string> without;  // numbers of meta servers that are lost for good, as the user typed them
  bool accept_loss = false;          // changes may be lost that only they held
};

/// `spate coord restore`: recreates the record from the stores of the meta servers. Returns the exit code.
int restore_record(Context& context, const RestoreOptions& options);

}  // namespace spate::tools
