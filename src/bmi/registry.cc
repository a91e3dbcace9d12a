// SPDX-License-Identifier: Apache-2.0
#include "bmi/registry.h"

#include <utility>

#include "base/check.h"

namespace spate::bmi {

void Registry::add(std::string scheme, ModuleFactory factory) {
  for (const Entry& entry : entries_) SPATE_CHECK(entry.scheme != scheme);
  entries_.push_back(Entry{std::move(scheme), std::move(factory)});
}

std::vector<std::string> Registry::schemes() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.scheme);
  return names;
}

Result<std::unique_ptr<Module>> Registry::make(std::string_view scheme, const ModuleEnvironment& environment) const {
  std::string known;
  for (const Entry& entry : entries_) {
    if (entry.scheme == scheme) return entry.factory(environment);
    known += known.empty() ? entry.scheme : ", " + entry.scheme;
  }
  return Error(Errc::kNoSuchModule, "\"" + std::string(scheme) + "\" (this build has: " + known + ")");
}

Result<std::vector<std::unique_ptr<Module>>> Registry::make_all(const std::vector<std::string>& schemes_wanted,
                                                                const ModuleEnvironment& environment) const {
  std::vector<std::unique_ptr<Module>> modules;
  for (const std::string& scheme : schemes_wanted.empty() ? schemes() : schemes_wanted) {
    SPATE_TRY(std::unique_ptr<Module> module, make(scheme, environment));
    modules.push_back(std::move(module));
  }
  return modules;
}

std::string_view url_scheme(std::string_view url) {
  const std::size_t end = url.find("://");
  return end == std::string_view::npos ? std::string_view() : url.substr(0, end);
}

std::string_view module_scheme(std::string_view url) {
  const std::string_view scheme = url_scheme(url);
  return scheme.substr(0, scheme.find('+'));
}

}  // namespace spate::bmi
