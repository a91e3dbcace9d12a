// SPDX-License-Identifier: Apache-2.0
// The pipe module: bmi over Unix sockets between two processes of one user. docs/wire-pipe.md.
#pragma once

#include <memory>

#include "base/clock.h"
#include "bmi/module.h"

namespace spate::bmi::pipe {

/// `clock` outlives the module.
std::unique_ptr<Module> make_pipe_module(const Clock& clock);

}  // namespace spate::bmi::pipe
