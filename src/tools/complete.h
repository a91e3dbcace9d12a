// SPDX-License-Identifier: Apache-2.0
// `spate complete`: what a shell may put at the end of a command line; and the row of `spate help`.
#pragma once

#include "tools/command.h"

namespace spate::tools {

/// Hidden; called by the shells' own files: spate.bash, spate.zsh, spate.fish.
Command make_complete();
/// Only for the help page: cli.cc turns `spate help NAME` into `spate NAME --help`.
Command make_help();

}  // namespace spate::tools
