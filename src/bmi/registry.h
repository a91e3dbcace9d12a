// SPDX-License-Identifier: Apache-2.0
// Registry: makes network modules from the names in a configuration. bmi itself knows no module folder: the code that
// builds the process (the daemon, the client library, a test) adds the factories of the modules it was linked with.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bmi/module.h"

namespace spate::bmi {

/// The clock for a module. It outlives the module.
struct ModuleEnvironment {
  Clock& clock;
};

using ModuleFactory = std::function<std::unique_ptr<Module>(const ModuleEnvironment&)>;

/// Movable value. Filled by one thread, then read by any.
class Registry {
 public:
  /// `scheme` is the URL scheme without suffix ("tcp", "ofi"). Adding one twice is a bug.
  void add(std::string scheme, ModuleFactory factory);
  /// The schemes, in the order in which they were added.
  std::vector<std::string> schemes() const;

  /// kNoSuchModule: the error names the schemes that exist.
  Result<std::unique_ptr<Module>> make(std::string_view scheme, const ModuleEnvironment& environment) const;
  /// One module for each name; all of them for an empty list.
  Result<std::vector<std::unique_ptr<Module>>> make_all(const std::vector<std::string>& schemes,
                                                        const ModuleEnvironment& environment) const;

 private:
  struct Entry {
    std::string scheme;
    ModuleFactory factory;
  };
  std::vector<Entry> entries_;
};

/// The scheme before "://", or empty when there is none.
std::string_view url_scheme(std::string_view url);
/// The scheme that selects a module: url_scheme() up to a '+' ("ofi" of "ofi+verbs").
std::string_view module_scheme(std::string_view url);

}  // namespace spate::bmi
