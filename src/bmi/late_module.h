// SPDX-License-Identifier: Apache-2.0
// A network module in a shared object of its own, which is loaded when a URL first needs it. Programs run without the
// module and its libraries until then.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "bmi/module.h"
#include "bmi/registry.h"

namespace spate::bmi {

/// The symbols that the shared object exports, both extern "C". The interface is compared before anything else is
/// called, because both sides must have been built from the same headers.
inline constexpr const char* kModuleInterfaceSymbol = "spate_bmi_module_interface";  // const char*()
inline constexpr const char* kModuleMakeSymbol = "spate_bmi_module_make";  // Module*(const ModuleEnvironment*)
inline constexpr const char* kModuleInterface = "spate bmi module 4";

/// Loads the module for `scheme`. kNoSuchModule, with the package to install, if it or a library that it needs is
/// missing. kVersionMismatch if it was built from other sources. It stays loaded until the process ends.
Result<std::unique_ptr<Module>> load_module(std::string_view scheme, const ModuleEnvironment& environment);

/// Loads a late module. It is load_module() outside of tests.
using ModuleLoader = std::function<Result<std::unique_ptr<Module>>(std::string_view, const ModuleEnvironment&)>;

/// A stand-in that calls `loader` on the first listen() or lookup(), and then passes every call on to the loaded
/// module. If loading fails, each of these calls returns the failure. It counts nothing before it is loaded.
std::unique_ptr<Module> make_late_module(std::string scheme, const ModuleEnvironment& environment,
                                         ModuleLoader loader = load_module);

}  // namespace spate::bmi
