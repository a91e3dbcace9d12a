// SPDX-License-Identifier: Apache-2.0
// spate_connect, spate_disconnect, and calls on a whole file system.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "assembly/locate.h"
#include "capi/handles.h"
#include "log/log.h"
#include "posix/convert.h"

namespace spate::capi {
namespace {

/// Copies the members that this version knows. A program compiled with a later header may have more members.
Result<spate_options> known_options(const spate_options* given) {
  spate_options options{};
  if (given == nullptr) return options;
  if (given->size < sizeof given->size)
    return Error(Errc::kInvalidArgument, "spate_options.size must be sizeof(struct spate_options)");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  const std::size_t known = std::min(given->size, sizeof options);
  if (std::any_of(bytes + known, bytes + given->size, [](unsigned char byte) { return byte != 0; })) {
    return Error(Errc::kArgumentTooLong, "spate_options has members that this version of the library does not know");
  }
  std::memcpy(&options, given, known);
  if ((options.flags & ~static_cast<unsigned>(SPATE_PROGRESS_THREAD)) != 0)
    return Error(Errc::kInvalidArgument, "unknown spate_options.flags");
  return options;
}

/// As a library it logs nothing by default, because the caller gets the errors. SPATE_LOG_LEVEL or the setting
/// log.level turns the log on.
Result<void> set_log_level(const std::vector<config::Override>& overrides) {
  std::string level = "off";
  for (const config::Override& one : overrides) {
    if (one.key == "log.level") level = one.value;
  }
  return log::set_levels(level);
}

Result<std::unique_ptr<spate_fs>> connect(const char* where, const spate_options* given) {
  SPATE_TRY(const spate_options options, known_options(given));
  assembly::ClientSettings settings;
  SPATE_TRY(settings.config_file, assembly::locate_config(where == nullptr ? "" : where));
  SPATE_TRY(settings.overrides, config::overrides_from_environment(assembly::whole_environment()));
  for (const char* const* one = options.settings; one != nullptr && *one != nullptr; ++one) {
    SPATE_TRY(auto value, config::override_from_argument(*one));
    settings.overrides.push_back(std::move(value));
  }
  SPATE_TRY(std::ignore, set_log_level(settings.overrides));
  settings.program = program_invocation_short_name;
  settings.credential = assembly::own_credential();
  settings.progress_thread = (options.flags & SPATE_PROGRESS_THREAD) != 0;
  auto fs = std::make_unique<spate_fs>();
  SPATE_TRY(fs->process, assembly::ClientProcess::open(settings));
  fs->posix =
      std::make_unique<posix::FileSystem>(fs->process->client(), posix::FileSystemOptions{options.umask & 0777U, {}});
  return fs;
}

Work statvfs_into(posix::FileSystem& fs, struct statvfs* out) {
  SPATE_CO_TRY(const client::SpaceUse use, co_await fs.statfs());
  *out = posix::to_statvfs(use);
  co_return 0;
}

Work sync_all(posix::FileSystem& fs) {
  SPATE_CO_TRY(std::ignore, co_await fs.sync());
  co_return 0;
}

}  // namespace
}  // namespace spate::capi

using namespace spate::capi;

extern "C" {

int spate_connect(spate_fs** fs, const char* where, const struct spate_options* options) {
  if (fs == nullptr) return refuse_null("fs");
  *fs = nullptr;
  try {
    auto made = connect(where, options);
    if (!made) return refuse(made.error());
    *fs = made->release();
    return 0;
  } catch (const std::exception&) {  // out of memory, or a thread could not be started
    return refuse(spate::Errc::kNoMemory);
  }
}

int spate_disconnect(spate_fs* fs) {
  if (fs == nullptr) return 0;
  if (fs->in_use != 0)
    return refuse(spate::Error(spate::Errc::kBusy, "files are open, operations not waited for, or calls under way"));
  delete fs;
  return 0;
}

int spate_statvfs(spate_fs* fs, struct statvfs* st) {
  if (fs == nullptr || st == nullptr) return refuse_null("fs or st");
  return static_cast<int>(now(fs, "", [=] { return statvfs_into(*fs->posix, st); }));
}

int spate_sync(spate_fs* fs) {
  if (fs == nullptr) return refuse_null("fs");
  return static_cast<int>(now(fs, "", [=] { return sync_all(*fs->posix); }));
}

}  // extern "C"
