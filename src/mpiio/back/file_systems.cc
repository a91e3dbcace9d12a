// SPDX-License-Identifier: Apache-2.0
#include "mpiio/back/file_systems.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>

#include "mpiio/back/background.h"
#include "mpiio/back/mpi.h"

namespace spate::mpiio {
namespace {

std::mutex mutex;
std::map<std::string, spate_fs*>& connected() {
  static auto& all = *new std::map<std::string, spate_fs*>;
  return all;
}

/// The umask of the process. It is read without a change, because other threads could create files meanwhile.
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
  Background::instance().stop();
  const std::lock_guard lock(mutex);
  for (auto& [config, fs] : connected()) spate_disconnect(fs);  // a file system with open files stays connected
  connected().clear();
  return MPI_SUCCESS;
}

/// Disconnects in MPI_Finalize, which begins with deleting the attributes of MPI_COMM_SELF.
void leave_at_finalize() {
  int key = MPI_KEYVAL_INVALID;
  if (PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave_all, &key, nullptr) == MPI_SUCCESS)
    PMPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
}

/// The real path of the name if it is on a FUSE mount. Most names cost one statfs.
std::optional<std::string> place_on_fuse(const std::string& name) {
  const std::unique_ptr<char, void (*)(void*)> whole(::realpath(name.c_str(), nullptr), std::free);
  std::string place;
  if (whole != nullptr) {
    place = whole.get();
  } else {  // the file will be created
    const std::size_t slash = name.rfind('/');
    const std::string above = slash == std::string::npos ? "." : name.substr(0, slash + 1);
    const std::unique_ptr<char, void (*)(void*)> folder(::realpath(above.c_str(), nullptr), std::free);
    if (folder == nullptr) return std::nullopt;
    place = std::string(folder.get()) + "/" + name.substr(slash + 1);
  }
  struct statfs fs{};
  const std::string folder = place.substr(0, place.rfind('/') + 1);
  if (::statfs(folder.c_str(), &fs) != 0 || fs.f_type != FUSE_SUPER_MAGIC) return std::nullopt;
  return place;
}

/// Finds the file if the name is on a mount of Spate to whose file system this process may connect. Otherwise the mount
/// serves the file, like a file of any other system.
std::optional<Name> resolve_by_mounts(const char* name) {
  const auto place = place_on_fuse(name);
  if (!place) return std::nullopt;
  std::ifstream file("/proc/self/mountinfo");
  const std::string mounts{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto found = resolve_on_mount(*place, mounts, ::geteuid());
  long outcome = 0;
  return found && connect(found->config, &outcome) != nullptr ? found : std::nullopt;
}

}  // namespace

std::optional<Name> resolve_here(const char* name) {
  if (name == nullptr) return std::nullopt;
  const char* prefixes = std::getenv("SPATE_PREFIX");
  if (prefixes == nullptr || *prefixes == '\0') prefixes = "/spate";
  char directory[4096] = "/";
  if (*name != '/' && ::getcwd(directory, sizeof directory) == nullptr) return std::nullopt;
  const auto found = resolve(name, prefixes, directory);
  return found || has_scheme(name) ? found : resolve_by_mounts(name);
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
