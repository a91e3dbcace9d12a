// SPDX-License-Identifier: Apache-2.0
// A network module that lies in a shared object of its own and is loaded when a URL first asks for it: programs then
// need neither it nor its libraries to run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bmi/module.h"
#include "bmi/registry.h"

namespace spate::bmi {

/// What the shared object exports, both extern "C". The interface is compared before anything else is called: both
/// sides must have been built from the same headers.
inline constexpr const char* kModuleInterfaceSymbol = "spate_bmi_module_interface";  // const char*()
inline constexpr const char* kModuleMakeSymbol = "spate_bmi_module_make";  // Module*(const ModuleEnvironment*)
inline constexpr const char* kModuleInterface = "spate bmi module 3";

/// Where `libspate-bmi-SCHEME.so` is looked for, in this order: beside the program or library that this code is in;
/// spate,
/// ../lib/spate, ../lib and ../bin from there; then wherever the loader looks.
std::vector<std::string> module_paths(std::string_view scheme);

/// Loads the module for `scheme`. kNoSuchModule, saying what to install, when it, or a library that it needs, is
/// missing; kVersionMismatch when it was built from other sources. It stays loaded until the process ends.
Result<std::unique_ptr<Module>> load_module(std::string_view scheme, const ModuleEnvironment& environment);

/// How a late module is had; load_module() but for tests.
using ModuleLoader = std::function<Result<std::unique_ptr<Module>>(std::string_view, const ModuleEnvironment&)>;

/// A module that is nothing until listen() or lookup() is called, and then what `loader` makes. A failure to load is
/// the result of these calls, each time. It counts nothing before it is loaded.
std::unique_ptr<Module> make_late_module(std::string scheme, const ModuleEnvironment& environment,
                                         ModuleLoader loader = load_module);

}  // namespace spate::bmi
