// SPDX-License-Identifier: Apache-2.0
// Shared objects that a program loads when it needs them, so that it runs without them and their libraries until then.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace spate {

/// Where to look for the shared object `file`, in this order: beside the program or library that contains this code; in
/// spate, ../lib/spate, ../lib and ../bin relative to that; then in the loader's own folders.
std::vector<std::string> plugin_paths(std::string_view file);

/// A loaded object. It stays loaded until the process ends.
struct Plugin {
  void* object = nullptr;
  std::string path;

  /// Null if the object does not export `name`.
  void* symbol(const char* name) const;
};

/// kNoSuchModule: the object, or a library that it needs, is missing; the context is the loader's reason.
Result<Plugin> load_plugin(std::string_view file);
/// The error for an object that was built from other sources.
Error foreign_plugin(std::string_view path);

}  // namespace spate
