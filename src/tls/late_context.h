// SPDX-License-Identifier: Apache-2.0
// A Context whose code, and libssl, are loaded when it is first opened (libspate-tls.so).
#pragma once

#include "tls/stream.h"

namespace spate::tls {

/// The symbols that the shared object exports, both extern "C"; see bmi/late_module.h.
inline constexpr const char* kInterfaceSymbol = "spate_tls_interface";  // const char*()
inline constexpr const char* kMakeSymbol = "spate_tls_make";            // Context*(const Settings*)
inline constexpr const char* kInterface = "spate tls 1";

/// connect() and accept() open it if nobody has. kNoSuchModule, with the package to install, if it cannot be loaded.
std::unique_ptr<Context> make_late_context(Settings settings);

}  // namespace spate::tls
