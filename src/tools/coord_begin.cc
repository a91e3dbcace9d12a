// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/load.h"
#include "tools/coord_commands.h"
#include "tools/deployment.h"
#include "tools/etcd_members.h"
#include "tools/meta_addresses.h"
#include "tools/output.h"
#include "tools/server_control.h"
#include "tools/voters.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

constexpr Duration kEtcdBeginTimeout = std::chrono::seconds(30);

/// The member of etcd that runs on this machine alone.
Result<EtcdMember> own_member(const std::string& folder) {
  const std::vector<std::string> names = members_of(folder);
  if (names.empty())
    return Error::told(Errc::kNotFound,
                       folder + " has no member of etcd: type this on a machine with a meta server, or --fs FOLDER");
  if (names.size() > 1 || !is_joined(folder))
    return Error::told(Errc::kNotSupported,
                       "all members of this etcd are on one machine: `spate up` begins it anew by itself if all have "
                       "lost their records. After that, type `spate coord restore`");
  return read_member(folder, names.front());
}

/// kExists: a majority of the cluster is there.
Result<void> check_lost(const config::FileSystemConfig& config) {
  const std::vector<VoterState> voters = look_at_voters(config);
  const auto good = std::ranges::find_if(voters, [](const VoterState& voter) { return voter.problem.empty(); });
  if (good == voters.end()) return {};
  return Error::told(Errc::kExists,
                     fmt::format("most members of etcd are there, {} among them: a second etcd would let "
                                 "two meta servers lead. If this machine has lost its records of etcd, "
                                 "its `spate join` line gets them anew",
                                 shown_voter(*good)));
}

/// Keeps the earlier records, for an operator who finds that he needs them.
Result<void> put_aside(const std::string& folder, const std::string& name, std::time_t now) {
  const std::string records = member_data(folder, name);
  std::error_code error;
  if (fs::exists(records, error)) fs::rename(records, fmt::format("{}.before-{}", records, now), error);
  if (error) return errno_error(error.value(), "rename " + records);
  fs::remove(begun_mark(folder, name), error);
  if (error) return errno_error(error.value(), "remove " + begun_mark(folder, name));
  return {};
}

Result<EtcdMember> begin(Context& context) {
  SPATE_TRY(const std::string file, context.config_file());
  SPATE_TRY(const auto loaded, config::load_file(file, {}));
  if (loaded.config.meta.coordinator.empty())
    return Error::told(Errc::kNotSupported, "this file system has a single meta server and no etcd");
  const std::string folder = fs::path(file).parent_path().string();
  SPATE_TRY(const EtcdMember member, own_member(folder));
  SPATE_TRY(const FolderLock lock, lock_folder(folder, kLockTimeout));
  SPATE_TRY(std::ignore, check_lost(loaded.config));
  SPATE_TRY(std::ignore, stop_members(running_supervisors(folder)));
  const std::time_t now = std::time(nullptr);
  SPATE_TRY(std::ignore, put_aside(folder, member.name, now));
  EtcdSettings settings = only_member(folder, loaded.config.fs.id, member, false);
  settings.beginning = static_cast<std::uint64_t>(now);
  SPATE_TRY(std::ignore, write_member(folder, settings));
  SystemClock clock;
  SPATE_TRY(std::ignore, start_members(folder, clock.now() + kEtcdBeginTimeout));
  settings.joins = true;  // without these records it does not begin once more
  SPATE_TRY(std::ignore, write_member(folder, settings));
  return member;
}

}  // namespace

int begin_cluster(Context& context) {
  const auto member = begin(context);
  if (!member) return context.fail(member.error());
  if (context.json) {
    context.print_json({{"etcd", client_url(*member)}});
  } else if (!context.quiet) {
    print(fmt::format(
        "A new etcd runs, with {} as its only member. `spate coord restore` makes the record anew once all "
        "meta servers run, and the `spate join` line gives each other machine its vote again, first where a "
        "member of the earlier etcd still runs.\n",
        member->name));
  }
  return kExitOk;
}

}  // namespace spate::tools
