// SPDX-License-Identifier: Apache-2.0
// MountOptions: the options of the command line of spate-mount, or of an fstab line.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
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
  kAuto,       // pages, which an open drops if the file has changed: close-to-open
  kWriteback,  // dirty pages, too: for the only client that writes
};

struct MountOptions {
  std::string config_file;  // a spate.toml, or the folder that holds one
  std::string directory;    // where to mount
  std::string source;       // the source that the kernel shows: fsname=, else the first name, made absolute
  CacheMode cache = CacheMode::kAuto;
  bool read_only = false;
  bool allow_other = false;  // other users may use the mount; needs root, or user_allow_other in /etc/fuse.conf
  bool no_dev = true;
  bool no_suid = true;
  bool no_exec = false;
  bool soft = false;  // an operation fails after client.deadline; with a hard mount it waits for the servers
  std::string atime;  // relatime, noatime or strictatime; empty: client.atime decides
  // On or off: whether attributes and names are kept under leases. Empty: client.attribute_cache decides.
  std::string leases;
  /// Whether listings ask for leases on the entries.
  client::Listings listings = client::Listings::kAuto;
  /// The kernel keeps attributes and names, too. The mount makes it drop them.
  bool kernel_keeps_attributes = false;
  /// The kernel keeps names in delegated directories.
  bool kernel_keeps_names = false;
  std::optional<bool> gather;    // as asked for; gathers() decides
  std::optional<bool> delegate;  // as asked for; delegates() decides
  bool acl = true;               // the kernel respects access control lists
  bool foreground = false;
  bool verbose = false;
  unsigned threads = 4;  // number of threads that are kept for the kernel's requests, 1 to 64
  /// The most memory of all worker threads together, 16 MiB to 1 GiB; each has kWorkerBytes (worker_limit()).
  std::uint64_t memory = std::uint64_t{256} << 20U;
  /// How long a thread polls the kernel before it sleeps, 0 to 10 ms.
  Duration busy_poll = std::chrono::microseconds(100);
  std::uint64_t readahead = std::uint64_t{4}
                            << 20U;  // bytes that the kernel asks for ahead; only root can have more than 128 KiB
  std::string log_file;              // empty: log/mount.log beside spate.toml, if that folder belongs to the user

  friend bool operator==(const MountOptions&, const MountOptions&) = default;
};

/// Memory of a worker thread: room for the largest request, a write of 1 MiB, and for the largest answer, a read of 1
/// MiB, with their headers.
inline constexpr std::uint64_t kWorkerBytes = (std::uint64_t{2} << 20U) + 65536;

/// Whether small writes that follow one another are sent together. If nothing was asked for: where other options allow
/// it.
bool gathers(const MountOptions& options);
/// Whether changes in new directories of the mount's own are answered locally. If nothing was asked for: where other
/// options allow it.
bool delegates(const MountOptions& options);
/// The options of the two that are on, for a program that may have other defaults; empty: neither.
std::string decided_options(const MountOptions& options);

/// How many worker threads `memory` allows; at least the number of kept ones.
unsigned worker_limit(const MountOptions& options);
/// How many pieces of gathered writes (client::GatherMemory) `memory` allows; 0: none are gathered.
std::size_t gather_pieces(const MountOptions& options);

/// Parses `spate-mount SOURCE DIR [-f] [-v] [-n] [-o A,B=C]...`, the form in which mount(8) calls /sbin/mount.spate.
/// kInvalidArgument names the wrong option and lists those that exist. `arguments` does not have the program's name.
Result<MountOptions> parse_command_line(const std::vector<std::string>& arguments);

/// Parses a comma-separated list, as after -o. Options of mount(8) itself (_netdev, noauto, x-...) are accepted.
Result<void> parse_option_list(std::string_view list, MountOptions& options);

/// Whether the kernel shows this option for every FUSE mount. Users that copy options out of /proc/mounts pass such
/// options, too.
bool is_told_by_kernel(std::string_view option);

/// The name of a spate.toml, or of its folder, as an absolute path without `.`, `..` and a slash at its end.
std::string absolute_source(const std::string& name);

/// `fsname=` for libfuse, which takes a backslash before each comma and backslash of the value.
std::string source_option(const MountOptions& options);

/// The options that a command line gives, as one list.
std::string given_options(const std::vector<std::string>& arguments);

/// Calls `take` for each option of a comma-separated list.
void for_each_option(std::string_view list, const std::function<void(std::string_view)>& take);

/// The value of `readdirplus=`.
std::string_view readdirplus_word(const MountOptions& options);

std::string_view usage();

}  // namespace spate::fuse
