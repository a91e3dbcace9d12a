// SPDX-License-Identifier: Apache-2.0
#include "fuse/remount.h"

#include <mntent.h>
#include <sys/mount.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/printable.h"
#include "fuse/control.h"
#include "fuse/options.h"

namespace spate::fuse {
namespace {

/// A flag of an existing mount that the kernel itself changes, whatever program serves the mount.
struct KernelFlag {
  std::string_view on, off;
  unsigned long flag;
};
constexpr unsigned long kNoSymfollow = 256;  // of mount(2); this machine's C library may lack it
constexpr std::array kKernelFlags{KernelFlag{"ro", "rw", MS_RDONLY}, KernelFlag{"nodev", "dev", MS_NODEV},
                                  KernelFlag{"nosuid", "suid", MS_NOSUID}, KernelFlag{"noexec", "exec", MS_NOEXEC},
                                  KernelFlag{"nosymfollow", "symfollow", kNoSymfollow}};

bool take_kernel_flag(std::string_view option, Remount& remount) {
  for (const KernelFlag& one : kKernelFlags) {
    if (option != one.on && option != one.off) continue;
    remount.on &= ~one.flag;
    remount.off &= ~one.flag;
    (option == one.on ? remount.on : remount.off) |= one.flag;
    return true;
  }
  return false;
}

/// mount(8) begins with rw or ro, and passes all options that shall hold, from fstab or from the present mount. It
/// drops those that are the default. So an option that it does not pass was requested to be off. The exceptions are
/// nodev and nosuid with a line of fstab: they hold without being in that line.
void take_silence(std::string_view all, Remount& remount) {
  bool from_kernel = false;
  for_each_option(all, [&](std::string_view option) { from_kernel = from_kernel || is_told_by_kernel(option); });
  const unsigned long told = from_kernel ? MS_NODEV | MS_NOSUID : 0;
  remount.off |= (told | MS_NOEXEC | kNoSymfollow) & ~remount.on;
  // The kernel shows this option for every mount without another atime option.
  std::erase(remount.others, "relatime");
}

/// The options of the Spate file system that is mounted at `directory`, as the kernel shows them.
std::optional<std::string> options_now(const std::string& directory) {
  const std::unique_ptr<FILE, int (*)(FILE*)> mounts(::setmntent("/proc/self/mounts", "re"), ::endmntent);
  std::optional<std::string> options;
  while (const mntent* entry = mounts == nullptr ? nullptr : ::getmntent(mounts.get())) {
    if (directory != entry->mnt_dir) continue;
    options.reset();  // the last mount covers the others
    if (std::string_view(entry->mnt_type) == "fuse.spate") options = entry->mnt_opts;
  }
  return options;
}

void say(const std::string& line) { std::fprintf(stderr, "spate-mount: %s\n", printable_lines(line).c_str()); }

/// The options with what they mean together, so that the default is the same as the option that asks for it.
MountOptions decided(MountOptions options) {
  options.gather = gathers(options);
  options.delegate = delegates(options);
  return options;
}

/// Whether to continue without a supervisor, which leaves the options unknown: they may be as requested already.
bool may_be_done(const Remount& remount) {
  if (remount.others.empty()) return true;
  const auto mounted = ask_supervisor(remount.directory, MessageKind::kOptions);
  if (!mounted) {
    for (const std::string& option : remount.others) say(option + " stays as it was mounted");
    return true;
  }
  const std::vector<std::string> lines = refusals(remount, *mounted);
  for (const std::string& line : lines) say(line);
  return lines.empty();
}

}  // namespace

Result<std::optional<Remount>> parse_remount(const std::vector<std::string>& arguments) {
  Remount remount;
  bool asked = false;
  std::string all;
  std::vector<std::string> names;
  const auto take = [&](std::string_view option) {
    if (option == "remount") {
      asked = true;
    } else if (!option.empty() && !take_kernel_flag(option, remount) && !is_told_by_kernel(option)) {
      remount.others.emplace_back(option);
    }
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.empty() || argument.front() != '-') {
      names.push_back(argument);
    } else if (argument.starts_with("-o")) {
      if (argument.size() == 2 && ++i == arguments.size())
        return Error::told(Errc::kInvalidArgument, "-o needs options behind it");
      const std::string_view list =
          argument.size() == 2 ? std::string_view(arguments[i]) : std::string_view(argument).substr(2);
      for_each_option(list, take);
      all.append(all.empty() ? "" : ",").append(list);
    } else if (argument == "-t") {
      ++i;  // skips the type
    }
  }
  if (!asked) return std::optional<Remount>();
  if (names.size() != 2) return Error::told(Errc::kInvalidArgument, "remount needs a source and a directory");
  remount.directory = names[1];
  if (all.starts_with("rw,") || all.starts_with("ro,")) take_silence(all, remount);
  return std::optional<Remount>(std::move(remount));
}

unsigned long remount_flags(const Remount& remount, std::string_view now) {
  unsigned long flags = 0;
  for_each_option(now, [&](std::string_view option) {
    for (const KernelFlag& one : kKernelFlags) {
      if (option == one.on) flags |= one.flag;
    }
  });
  flags = (flags & ~remount.off) | remount.on | MS_REMOUNT;
  // The other flags belong to the mount point, not to the file system.
  const bool of_file_system = ((remount.on | remount.off) & MS_RDONLY) != 0;
  return of_file_system ? flags : flags | MS_BIND;
}

std::vector<std::string> refusals(const Remount& remount, std::string_view mounted) {
  std::vector<std::string> lines;
  MountOptions was;
  if (!parse_option_list(mounted, was)) was = MountOptions();
  for (const std::string& option : remount.others) {
    MountOptions wanted = was;
    const auto known = parse_option_list(option, wanted);
    if (!known) {
      lines.push_back(known.error().message());
    } else if (decided(wanted) != decided(was)) {
      lines.push_back(option + " cannot be changed while it is mounted: a remount changes ro, dev, suid and exec");
    }
  }
  return lines;
}

int run_remount(const Remount& asked) {
  constexpr int kMountFailed = 32;  // of mount(8)
  Remount remount = asked;
  std::error_code ignored;
  remount.directory = std::filesystem::weakly_canonical(remount.directory, ignored).string();
  const auto now = options_now(remount.directory);
  if (!now) {
    say("remount: no file system of Spate is mounted at " + remount.directory);
    return kMountFailed;
  }
  if (!may_be_done(remount)) return kMountFailed;
  if (::mount("none", remount.directory.c_str(), nullptr, remount_flags(remount, *now), nullptr) == 0) return 0;
  say(errno_error(errno, "remount " + remount.directory).message());
  return kMountFailed;
}

}  // namespace spate::fuse
