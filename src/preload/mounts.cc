// SPDX-License-Identifier: Apache-2.0
#include "preload/mounts.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "assembly/locate.h"
#include "base/checksum.h"
#include "log/log.h"
#include "preload/front_link.h"
#include "preload/paths.h"

namespace spate::preload {
namespace {

constexpr unsigned kDeviceMajor = 0xfa7;  // no real device has this number; a mount's number is the minor

/// Lives until the process ends, because calls come until then.
std::deque<Mount>& mounts() {
  static auto& all = *new std::deque<Mount>([] {
    std::deque<Mount> made;
    const FrontState& state = *front().state;
    for (int i = 0; i < state.mount_count; ++i) made.emplace_back(state.mounts[i], static_cast<unsigned>(i));
    return made;
  }());
  return all;
}

/// As a library it logs nothing by default; SPATE_LOG_LEVEL or the setting log.level turns its log on.
Result<void> set_log_level(const std::vector<config::Override>& overrides) {
  std::string level = "off";
  for (const config::Override& one : overrides) {
    if (one.key == "log.level") level = one.value;
  }
  return log::set_levels(level);
}

void tell(const std::string& prefix, const std::string& what) {
  const std::string line = "spate: " + prefix + ": " + what + "\n";
  raw(SYS_write, 2, line.data(), line.size());
}

/// Identifies the file that is open as standard error; nothing if none is.
std::optional<std::pair<dev_t, ino_t>> standard_error() {
  struct stat st{};
  if (raw(SYS_fstat, 2, &st) != 0) return std::nullopt;
  return std::pair(st.st_dev, st.st_ino);
}

}  // namespace

Mount::Mount(const MountPoint& point, unsigned index)
    : prefix_(point.prefix, point.prefix_size), config_(point.config), index_(index), stderr_(standard_error()) {}

dev_t Mount::device() const { return makedev(kDeviceMajor, index_); }

Result<std::unique_ptr<Mount::Running>> Mount::start() const {
  assembly::ClientSettings settings;
  SPATE_TRY(settings.config_file, assembly::locate_config(config_));
  SPATE_TRY(settings.overrides, config::overrides_from_environment(assembly::whole_environment()));
  // Leases are descriptors. A program may close descriptors that it does not know, and open others in their place.
  settings.overrides.push_back({"client.bypass", "off", "programs without a mount"});
  SPATE_TRY(std::ignore, set_log_level(settings.overrides));
  settings.program = program_invocation_short_name;
  settings.credential = assembly::own_credential();
  settings.on_wait = [prefix = prefix_, before = stderr_](const rpc::ServerWait& wait) {
    let_default_signals_act();
    if (wait.state == rpc::ServerWait::State::kBegun && before && standard_error() == before)
      tell(prefix, "has waited for " + rpc::text_of(wait));
  };
  SPATE_TRY(auto process, assembly::ClientProcess::open(settings));
  return std::make_unique<Running>(std::move(process), prefix_);
}

std::optional<Result<Attributes>> Mount::kept_attributes(const posix::PathAt& where) const {
  if (!keeps_.load(std::memory_order_acquire)) return std::nullopt;
  return running_->files.kept_attributes(where);
}

Result<BrokerPlace> Mount::broker() const {
  SPATE_TRY(const std::string config_file, assembly::locate_config(config_));
  SPATE_TRY(const auto overrides, config::overrides_from_environment(assembly::whole_environment()));
  std::string terms = config_file;
  for (const config::Override& one : overrides) terms += "\n" + one.key + "=" + one.value;
  return BrokerPlace{std::max<std::uint64_t>(hash64(as_bytes(terms)), 1), config_file};
}

Result<Mount::Running*> Mount::client() {
  const std::lock_guard lock(*starting_);
  if (running_ == nullptr) {
    auto made = start();
    if (!made) {
      if (!std::exchange(told_, true)) tell(prefix_, made.error().message());
      return Error(Errc::kIoError, made.error().message());
    }
    running_ = *std::move(made);
    keeps_.store(running_->process->client().keeps_attributes(), std::memory_order_release);
  }
  return running_.get();
}

void Mount::forget() {
  std::ignore = starting_.release();  // a thread of the parent may have held it
  starting_ = std::make_unique<std::mutex>();
  std::ignore = running_.release();
  keeps_ = false;
}

void Mount::end() {
  keeps_ = false;
  running_.reset();
}

Mount* mount_at(std::string_view prefix) {
  for (Mount& mount : mounts()) {
    if (mount.prefix() == prefix) return &mount;
  }
  return nullptr;
}

Mount* mount_of(std::string_view path) {
  for (Mount& mount : mounts()) {
    if (is_below(path, mount.prefix())) return &mount;
  }
  return nullptr;
}

void forget_clients() {
  for (Mount& mount : mounts()) mount.forget();
}

void end_clients() {
  for (Mount& mount : mounts()) mount.end();
}

bool any_client_started() {
  for (const Mount& mount : mounts()) {
    if (mount.started()) return true;
  }
  return false;
}

}  // namespace spate::preload
