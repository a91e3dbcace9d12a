// SPDX-License-Identifier: Apache-2.0
#include "base/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

namespace spate {
namespace {

std::string own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&plugin_paths), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  const std::size_t slash = path.rfind('/');
  if (slash != std::string::npos) return path.substr(0, slash);
  // The shell found the program by PATH, so argv does not tell where it is. The kernel does.
  std::string self(4096, '\0');
  const ssize_t n = ::readlink("/proc/self/exe", self.data(), self.size());
  if (n <= 0 || n == static_cast<ssize_t>(self.size())) return {};
  self.resize(static_cast<std::size_t>(n));
  return self.substr(0, self.rfind('/'));
}

}  // namespace

std::vector<std::string> plugin_paths(std::string_view file) {
  std::vector<std::string> paths;
  if (const std::string folder = own_folder(); !folder.empty()) {
    for (const char* below : {"/", "/spate/", "/../lib/spate/", "/../lib/", "/../bin/"})
      paths.push_back(folder + below + std::string(file));
  }
  paths.emplace_back(file);
  return paths;
}

void* Plugin::symbol(const char* name) const { return ::dlsym(object, name); }

Result<Plugin> load_plugin(std::string_view file) {
  std::string why;
  for (const std::string& path : plugin_paths(file)) {
    const bool is_path = path.find('/') != std::string::npos;
    if (is_path && ::access(path.c_str(), F_OK) != 0) continue;
    if (void* object = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return Plugin{object, path};
    const char* const error = ::dlerror();
    why = error != nullptr ? error : "unknown reason";
    if (is_path) break;  // the file is there, but a library that it needs is missing
  }
  return Error(Errc::kNoSuchModule, why);
}

Error foreign_plugin(std::string_view path) {
  return {Errc::kVersionMismatch,
          std::string(path) + " belongs to another version of Spate: install the one that came with this program"};
}

}  // namespace spate
