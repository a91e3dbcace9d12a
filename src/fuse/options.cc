// SPDX-License-Identifier: Apache-2.0
#include "fuse/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>

#include "base/units.h"
#include "client/session/gather_memory.h"

namespace spate::fuse {
namespace {

constexpr unsigned kMaxThreads = 64;
constexpr std::uint64_t kLeastMemory = std::uint64_t{16} << 20U;
constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 30U;
constexpr Duration kMaxBusyPoll = std::chrono::milliseconds(10);
constexpr std::uint64_t kMaxReadahead = std::uint64_t{64} << 20U;

using Setter = std::function<Result<void>(MountOptions&, std::string_view value)>;

Setter flag(bool MountOptions::* member, bool value) {
  return [member, value](MountOptions& options, std::string_view given) -> Result<void> {
    if (!given.empty()) return Error::told(Errc::kInvalidArgument, "takes no value");
    options.*member = value;
    return {};
  };
}

Setter choice(std::optional<bool> MountOptions::* member, bool value) {
  return [member, value](MountOptions& options, std::string_view given) -> Result<void> {
    if (!given.empty()) return Error::told(Errc::kInvalidArgument, "takes no value");
    options.*member = value;
    return {};
  };
}

Setter word(std::string MountOptions::* member, std::string_view value) {
  return [member, value](MountOptions& options, std::string_view given) -> Result<void> {
    if (!given.empty()) return Error::told(Errc::kInvalidArgument, "takes no value");
    options.*member = value;
    return {};
  };
}

Result<void> set_cache(MountOptions& options, std::string_view value) {
  if (value == "none") {
    options.cache = CacheMode::kNone;
  } else if (value == "auto") {
    options.cache = CacheMode::kAuto;
  } else if (value == "writeback") {
    options.cache = CacheMode::kWriteback;
  } else {
    return Error::told(Errc::kInvalidArgument, "is none, auto or writeback");
  }
  return {};
}

Result<void> set_attribute_cache(MountOptions& options, std::string_view value) {
  if (value != "kernel" && value != "names" && value != "mount")
    return Error::told(Errc::kInvalidArgument, "is mount, names or kernel");
  options.kernel_keeps_attributes = value == "kernel";
  options.kernel_keeps_names = value == "names";
  return {};
}

struct ListingsName {
  std::string_view name;
  client::Listings value;
};
constexpr std::array kListings{ListingsName{"no", client::Listings::kNames},
                               ListingsName{"auto", client::Listings::kAuto},
                               ListingsName{"yes", client::Listings::kObjects}};

Result<void> set_readdirplus(MountOptions& options, std::string_view value) {
  for (const ListingsName& one : kListings) {
    if (value != one.name) continue;
    options.listings = one.value;
    return {};
  }
  return Error::told(Errc::kInvalidArgument, "is no, auto or yes");
}

Result<void> set_threads(MountOptions& options, std::string_view value) {
  unsigned threads = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), threads);
  if (error != std::errc() || end != value.data() + value.size() || threads < 1 || threads > kMaxThreads) {
    return Error::told(Errc::kInvalidArgument, "is a number of 1 to 64");
  }
  options.threads = threads;
  return {};
}

Result<void> set_busy_poll(MountOptions& options, std::string_view value) {
  const auto span = parse_duration(value);
  if (!span || *span < Duration(0) || *span > kMaxBusyPoll)
    return Error::told(Errc::kInvalidArgument, "is a time such as 100us, at most 10ms; 0: not at all");
  options.busy_poll = *span;
  return {};
}

Result<void> set_memory(MountOptions& options, std::string_view value) {
  const auto bytes = parse_size(value);
  if (!bytes || *bytes < kLeastMemory || *bytes > kMostMemory)
    return Error::told(Errc::kInvalidArgument, "is a size such as 256MiB, 16MiB to 1GiB");
  options.memory = *bytes;
  return {};
}

Result<void> set_readahead(MountOptions& options, std::string_view value) {
  const auto bytes = parse_size(value);
  if (!bytes || *bytes > kMaxReadahead)
    return Error::told(Errc::kInvalidArgument, "is a size such as 4MiB, at most 64MiB");
  options.readahead = *bytes;
  return {};
}

Result<void> set_log(MountOptions& options, std::string_view value) {
  if (value.empty() || value.front() != '/') return Error::told(Errc::kInvalidArgument, "takes an absolute path");
  options.log_file = value;
  return {};
}

Result<void> set_source(MountOptions& options, std::string_view value) {
  if (value.empty()) return Error::told(Errc::kInvalidArgument, "needs the name to show as the source of the mount");
  options.source = value;
  return {};
}

const std::map<std::string_view, Setter>& setters() {
  static const std::map<std::string_view, Setter> all{
      {"ro", flag(&MountOptions::read_only, true)},
      {"rw", flag(&MountOptions::read_only, false)},
      {"allow_other", flag(&MountOptions::allow_other, true)},
      {"dev", flag(&MountOptions::no_dev, false)},
      {"nodev", flag(&MountOptions::no_dev, true)},
      {"suid", flag(&MountOptions::no_suid, false)},
      {"nosuid", flag(&MountOptions::no_suid, true)},
      {"exec", flag(&MountOptions::no_exec, false)},
      {"noexec", flag(&MountOptions::no_exec, true)},
      {"gather", choice(&MountOptions::gather, true)},
      {"nogather", choice(&MountOptions::gather, false)},
      {"delegate", choice(&MountOptions::delegate, true)},
      {"nodelegate", choice(&MountOptions::delegate, false)},
      {"acl", flag(&MountOptions::acl, true)},
      {"noacl", flag(&MountOptions::acl, false)},
      {"soft", flag(&MountOptions::soft, true)},
      {"hard", flag(&MountOptions::soft, false)},
      {"leases", word(&MountOptions::leases, "on")},
      {"noleases", word(&MountOptions::leases, "off")},
      {"atime", word(&MountOptions::atime, "")},
      {"relatime", word(&MountOptions::atime, "relatime")},
      {"noatime", word(&MountOptions::atime, "noatime")},
      {"strictatime", word(&MountOptions::atime, "strictatime")},
      {"cache", set_cache},
      {"attr_cache", set_attribute_cache},
      {"readdirplus", set_readdirplus},
      {"threads", set_threads},
      {"busy_poll", set_busy_poll},
      {"readahead", set_readahead},
      {"memory", set_memory},
      {"log", set_log},
      {"fsname", set_source},
  };
  return all;
}

/// Whether the option of mount(8) or fstab(5) needs no action. Such an option means nothing to a mount helper, or holds
/// in any case: a directory's atime never changes, changes of names are never delayed, and times that may stay in
/// memory for longer may also be sent earlier.
bool is_harmless(std::string_view option) {
  constexpr std::array kIgnored{
      "defaults", "_netdev", "auto",       "noauto",     "nofail",        "user",     "nouser",    "users",
      "owner",    "group",   "async",      "dirsync",    "diratime",      "lazytime", "nomand",    "noiversion",
      "silent",   "loud",    "nodiratime", "nolazytime", "nostrictatime", "nonempty", "symfollow", "norelatime",
  };
  for (const std::string_view start : {"x-", "X-", "comment=", "user=", "uhelper=", "helper="})
    if (option.starts_with(start)) return true;
  return std::find(kIgnored.begin(), kIgnored.end(), option) != kIgnored.end() || is_told_by_kernel(option);
}

std::string known_options() {
  std::string all;
  for (const auto& [name, setter] : setters()) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

Result<void> parse_option(std::string_view option, MountOptions& options) {
  if (option.empty() || is_harmless(option)) return {};
  const std::size_t equals = option.find('=');
  const std::string_view name = option.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : option.substr(equals + 1);
  const auto found = setters().find(name);
  if (found == setters().end()) {
    return Error::told(Errc::kInvalidArgument,
                       "no mount option is called \"" + std::string(name) + "\"; there are " + known_options());
  }
  auto set = found->second(options, value);
  if (!set) return std::move(set).error().within("mount option " + std::string(name));
  return {};
}

Result<void> parse_switch(const std::string& argument, MountOptions& options) {
  for (const char c : argument.substr(1)) {
    if (c == 'f') {
      options.foreground = true;
    } else if (c == 'v') {
      options.verbose = true;
    } else if (c != 'n' && c != 's') {  // mount(8): no mtab, sloppy
      return Error::told(Errc::kInvalidArgument, "there is no option -" + std::string(1, c));
    }
  }
  return {};
}

}  // namespace

bool is_told_by_kernel(std::string_view option) {
  constexpr std::array kTold{"user_id", "group_id", "default_permissions", "max_read", "blksize"};
  return std::find(kTold.begin(), kTold.end(), option.substr(0, option.find('='))) != kTold.end();
}

std::string absolute_source(const std::string& name) {
  std::error_code ignored;
  const std::filesystem::path whole = std::filesystem::absolute(name, ignored).lexically_normal();
  return (whole.has_filename() || !whole.has_relative_path() ? whole : whole.parent_path()).string();
}

std::string source_option(const MountOptions& options) {
  std::string text = "fsname=";
  for (const char c : options.source) {
    if (c == ',' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

void for_each_option(std::string_view list, const std::function<void(std::string_view)>& take) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    take(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

Result<void> parse_option_list(std::string_view list, MountOptions& options) {
  Result<void> result;
  for_each_option(list, [&](std::string_view option) {
    if (result) result = parse_option(option, options);
  });
  return result;
}

std::string given_options(const std::vector<std::string>& arguments) {
  std::string all;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with("-o")) continue;
    if (!all.empty()) all += ',';
    all += arguments[i].size() > 2 ? arguments[i].substr(2) : ++i < arguments.size() ? arguments[i] : "";
  }
  return all;
}

Result<MountOptions> parse_command_line(const std::vector<std::string>& arguments) {
  MountOptions options;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "-o") {
      if (++i == arguments.size()) return Error::told(Errc::kInvalidArgument, "-o needs options behind it");
      SPATE_TRY(std::ignore, parse_option_list(arguments[i], options));
    } else if (argument.starts_with("-o")) {
      SPATE_TRY(std::ignore, parse_option_list(std::string_view(argument).substr(2), options));
    } else if (argument == "-t") {
      // The type, as mount(8) gives it to helpers of types with a dot: one of those that this program is linked as.
      const std::string type = ++i == arguments.size() ? "" : arguments[i];
      if (type != "spate" && type != "fuse.spate")
        return Error::told(Errc::kInvalidArgument, "the type behind -t must be fuse.spate");
    } else if (argument.size() > 1 && argument.front() == '-') {
      SPATE_TRY(std::ignore, parse_switch(argument, options));
    } else {
      names.push_back(argument);
    }
  }
  if (options.kernel_keeps_attributes && options.leases == "off")
    return Error::told(Errc::kInvalidArgument, "attr_cache=kernel needs leases, and noleases is given");
  if (gathers(options) && options.leases == "off")
    return Error::told(Errc::kInvalidArgument, "gather needs leases, and noleases is given");
  if (gathers(options) && options.cache != CacheMode::kAuto)
    return Error::told(Errc::kInvalidArgument, "gather works with cache=auto only");
  if (delegates(options) && options.leases == "off")
    return Error::told(Errc::kInvalidArgument, "delegate needs leases, and noleases is given");
  if (names.size() != 2)
    return Error::told(Errc::kInvalidArgument, "needs a spate.toml (or its folder) and a directory");
  options.config_file = names[0];
  options.directory = names[1];
  return options;
}

std::string_view readdirplus_word(const MountOptions& options) {
  const auto is_it = [&](const ListingsName& one) { return one.value == options.listings; };
  return std::find_if(kListings.begin(), kListings.end(), is_it)->name;
}

bool gathers(const MountOptions& options) {
  return options.gather.value_or(options.cache == CacheMode::kAuto && options.leases != "off");
}

bool delegates(const MountOptions& options) { return options.delegate.value_or(options.leases != "off"); }

std::string decided_options(const MountOptions& options) {
  std::string list = gathers(options) ? "gather" : "";
  if (delegates(options)) list += list.empty() ? "delegate" : ",delegate";
  return list;
}

std::size_t gather_pieces(const MountOptions& options) {
  constexpr std::uint64_t kPart = 8;
  if (!gathers(options)) return 0;
  return std::min<std::size_t>(options.memory / kPart / client::GatherMemory::kPieceBytes,
                               client::GatherMemory::kMostPieces);
}

unsigned worker_limit(const MountOptions& options) {
  const std::uint64_t gathered = gather_pieces(options) * client::GatherMemory::kPieceBytes;
  return std::max(options.threads, static_cast<unsigned>((options.memory - gathered) / kWorkerBytes));
}

std::string_view usage() {
  return R"(usage: spate-mount SPATE.TOML DIRECTORY [-f] [-v] [-o OPTION,...]
Mounts a Spate file system in DIRECTORY, by FUSE; `spate mount DIRECTORY` finds its spate.toml by itself. Linked as
/sbin/mount.spate it serves mount(8) and fstab(5). docs/mount.md has more.

  -f                       stay in the foreground
  -v                       log every change of state
  -h, --help               print this text
  -o ro                    refuse changes
  -o allow_other           other users may use the mount, too, as far as owner, group and mode allow
  -o cache=MODE            what the kernel caches: none, auto (close-to-open, the default), writeback
  -o soft, hard            a call fails if a server does not answer in time (soft), or waits (hard, the default)
  -o leases, noleases      names and attributes are cached under leases (the default), or not
  -o gather, nogather      small writes that follow one another are sent to the servers together (the default), or not
  -o delegate, nodelegate  what programs make in new directories is sent to the servers in batches (the default), or not
  -o attr_cache=MODE       the kernel caches names in new directories (names), names and attributes everywhere (kernel),
                           or none under leases (mount, the default)
  -o readdirplus=MODE      listings bring leases on the listed objects: auto (the default), yes, no
  -o acl, noacl            with allow_other: the kernel checks access control lists (the default), or not
  -o relatime, noatime, strictatime
                           when a read changes atime; overrides client.atime of spate.toml
  -o threads=N             threads that stay ready for the kernel's requests (4)
  -o memory=SIZE           largest memory of their requests and answers together (256MiB)
  -o busy_poll=TIME        how long a thread asks for the next request before it sleeps (100us)
  -o readahead=SIZE        bytes that the kernel reads ahead of a sequential reader (4MiB)
  -o fsname=NAME           what the kernel shows as the source of the mount
  -o log=FILE              the file of the mount's log
  -o dev, nodev, suid, nosuid, exec, noexec, rw
                           as in mount(8); nodev and nosuid are the default
)";
}

}  // namespace spate::fuse
