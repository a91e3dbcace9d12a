// SPDX-License-Identifier: Apache-2.0
// MountOptions: what the command line of spate-mount, or an fstab line, asks for.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "client/options.h"

namespace spate::fuse {

/// What the kernel may keep of file data; docs/mount.md says what each promises.
enum class CacheMode {
  kNone,       // nothing: each read and write goes to the servers
  kAuto,       // pages, dropped at an open when the file has changed: close-to-open
  kWriteback,  // dirty pages too: for the only client that writes
};

struct MountOptions {
  std::string config_file;  // a spate.toml, or the folder that holds one
  std::string directory;    // where to mount
  std::string source;       // what the kernel shows as what is mounted: fsname=, else the first name, made absolute
  CacheMode cache = CacheMode::kAuto;
  bool read_only = false;
  bool allow_other = false;  // other users may use it; needs root or user_allow_other in /etc/fuse.conf
  bool no_dev = true;
  bool no_suid = true;
  bool no_exec = false;
  bool soft = false;  // an operation fails after client.deadline; hard ones wait for the servers
  std::string atime;  // relatime, noatime or strictatime; empty: as client.atime says
  // On or off: whether attributes and names are kept under leases; empty: as client.attribute_cache says.
  std::string leases;
  /// Whether listings bring leases on what they list.
  client::Listings listings = client::Listings::kAuto;
  /// The kernel keeps attributes and names as well, until the mount has it drop them.
  bool kernel_keeps_attributes = false;
  bool acl = true;  // the kernel heeds access control lists
  bool foreground = false;
  bool verbose = false;
  unsigned threads = 4;  // 1..64, that are kept for requests of the kernel
  /// Most memory of all worker threads together, 16 MiB to 1 GiB: kWorkerBytes each (worker_limit()).
  std::uint64_t memory = std::uint64_t{256} << 20U;
  /// How long one goes on asking the kernel before it sleeps, 0..10 ms.
  Duration busy_poll = std::chrono::microseconds(100);
  std::uint64_t readahead = std::uint64_t{4}
                            << 20U;  // bytes that the kernel asks for ahead; only root can have more than 128 KiB
  std::string log_file;              // empty: log/mount.log beside spate.toml, if that folder is the user's own

  friend bool operator==(const MountOptions&, const MountOptions&) = default;
};

/// What a worker thread may hold: room for the largest request, a write of 1 MiB, and for the largest answer, a read of
/// 1 MiB, with their headers.
inline constexpr std::uint64_t kWorkerBytes = (std::uint64_t{2} << 20U) + 65536;

/// How many worker threads `memory` allows, at least as many as are kept.
unsigned worker_limit(const MountOptions& options);

/// Reads `spate-mount SOURCE DIR [-f] [-v] [-n] [-o A,B=C]...`, which is also how mount(8) calls /sbin/mount.spate.
/// kInvalidArgument names the option that is wrong and those there are. Arguments without the program's name.
Result<MountOptions> parse_command_line(const std::vector<std::string>& arguments);

/// One comma-separated list, as after -o. Options of mount(8) itself (_netdev, noauto, x-...) are accepted.
Result<void> parse_option_list(std::string_view list, MountOptions& options);

/// The kernel shows these options of every FUSE mount, so they come back from whoever copies them out of /proc/mounts.
bool is_told_by_kernel(std::string_view option);

/// The name of a spate.toml, or of its folder, as an absolute path without `.`, `..` and a slash at its end.
std::string absolute_source(const std::string& name);

/// `fsname=` for libfuse, which takes a backslash before each comma and backslash of the value.
std::string source_option(const MountOptions& options);

/// The options that a command line gives, as one list.
std::string given_options(const std::vector<std::string>& arguments);

/// Each of a comma-separated list.
void for_each_option(std::string_view list, const std::function<void(std::string_view)>& take);

/// What of `readdirplus=` was asked for.
std::string_view readdirplus_word(const MountOptions& options);

std::string_view usage();

}  // namespace spate::fuse
