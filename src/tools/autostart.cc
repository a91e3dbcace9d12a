// SPDX-License-Identifier: Apache-2.0
#include "tools/autostart.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "assembly/locate.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

/// Empty: this user has no home folder, or it is another user's.
fs::path units_folder() {
  const std::string config = assembly::own_folder("XDG_CONFIG_HOME", ".config");
  return config.empty() ? fs::path() : fs::path(config) / "systemd/user";
}

/// Escapes a word of an Exec line: systemd replaces $ and %, and interprets quotes and backslashes.
std::string unit_word(std::string_view word) {
  std::string text = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') text += '\\';
    if (c == '$' || c == '%') text += c;
    text += c;
  }
  return text + "\"";
}

/// The exit code of `systemctl --user ...`; negative: it could not be run.
int systemctl(const char* verb, const std::string& unit) {
  std::array<const char*, 6> words{"systemctl", "--user", "--quiet", verb, unit.c_str(), nullptr};
  pid_t pid = -1;
  if (::posix_spawnp(&pid, words[0], nullptr, nullptr, const_cast<char**>(words.data()), environ) != 0) return -1;
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

std::string unit_text(const std::string& folder) {
  std::error_code ignored;
  const std::string spate = unit_word(fs::read_symlink("/proc/self/exe", ignored).string());
  return fmt::format(
      "# Written by `spate up --enable`.\n[Unit]\nDescription=Spate file system\n\n[Service]\nType=oneshot\n"
      "RemainAfterExit=yes\nExecStart={0} up -q --dir {1}\nExecStop={0} down -q --force --dir {1}\n\n"
      "[Install]\nWantedBy=default.target\n",
      spate, unit_word(folder));
}

}  // namespace

std::string unit_name(const std::string& folder) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.";
  std::string name = "spate";
  for (const char c : folder) {
    if (c == '/') {
      name += '-';
    } else if (kPlain.find(c) != std::string_view::npos) {
      name += c;
    } else {
      name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return name + ".service";
}

Result<void> enable_autostart(const std::string& folder) {
  if (folder.find('\n') != std::string::npos)
    return Error::told(Errc::kInvalidArgument, "a systemd unit cannot name a folder whose name has a line break");
  const fs::path units = units_folder();
  if (units.empty())
    return Error::told(Errc::kNotFound,
                       "there is no folder of this user alone for its units: see HOME and XDG_CONFIG_HOME");
  const std::string unit = unit_name(folder);
  std::error_code error;
  fs::create_directories(units, error);
  const bool known = fs::exists(units / unit, error);
  std::ofstream out(units / unit, std::ios::trunc);
  out << unit_text(folder);
  out.close();
  if (!out) return errno_error(errno, "write " + (units / unit).string());
  const int code = systemctl("enable", unit);
  if (code == 0) return {};
  if (!known) fs::remove(units / unit, error);
  return Error::told(Errc::kNotSupported,
                     code < 0 || code == 127
                         ? std::string("systemctl is not here: start it at login by other means, with `spate up`")
                         : "systemctl cannot enable the unit " + unit + "; is this user's service manager running?");
}

void disable_autostart(const std::string& folder) {
  const fs::path units = units_folder();
  const fs::path file = units / unit_name(folder);
  std::error_code ignored;
  if (units.empty() || !fs::exists(file, ignored)) return;
  std::ignore = systemctl("disable", unit_name(folder));
  fs::remove(file, ignored);
}

}  // namespace spate::tools
