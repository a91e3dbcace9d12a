// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/file_systems.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "mpiio/back/mpi.h"

namespace spate::mpiio {
namespace {

std::mutex mutex;
std::map<std::string, spate_fs*>& connected() {
  static auto& all = *new std::map<std::string, spate_fs*>;
  return all;
}

/// The process's umask, without changing it for a moment.
mode_t own_umask() {
  const std::unique_ptr<FILE, int (*)(FILE*)> status(std::fopen("/proc/self/status", "re"), std::fclose);
  char line[256];
  while (status != nullptr && std::fgets(line, sizeof line, status.get()) != nullptr) {
    unsigned mask = 0;
    if (std::sscanf(line, "Umask: %o", &mask) == 1) return mask & 0777U;
  }
  return 022;
}

int leave_all(MPI_Comm, int, void*, void*) {
  const std::lock_guard lock(mutex);
  for (auto& [config, fs] : connected()) spate_disconnect(fs);  // stays when the program has left files open
  connected().clear();
  return MPI_SUCCESS;
}

/// Attributes of MPI_COMM_SELF are deleted first by MPI_Finalize.
void leave_at_finalize() {
  int key = MPI_KEYVAL_INVALID;
  if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave_all, &key, nullptr) == MPI_SUCCESS)
    PMPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
}

}  // namespace

std::optional<Name> resolve_here(const char* name) {
  if (name == nullptr) return std::nullopt;
  const char* prefixes = std::getenv("SPATE_PREFIX");
  if (prefixes == nullptr || *prefixes == '\0') prefixes = "/spate";
  char directory[4096] = "/";
  if (*name != '/' && ::getcwd(directory, sizeof directory) == nullptr) return std::nullopt;
  return resolve(name, prefixes, directory);
}

spate_fs* connect(const std::string& config, long* outcome) {
  const std::lock_guard lock(mutex);
  const auto found = connected().find(config);
  if (found != connected().end()) return found->second;
  spate_fs* fs = nullptr;
  spate_options options{};
  options.size = sizeof options;
  options.umask = own_umask();
  *outcome = spate_connect(&fs, config.empty() ? nullptr : config.c_str(), &options);
  if (*outcome < 0) return nullptr;
  static std::once_flag once;
  std::call_once(once, leave_at_finalize);
  connected()[config] = fs;
  return fs;
}

}  // namespace spate::mpiio
