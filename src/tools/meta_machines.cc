// SPDX-License-Identifier: Apache-2.0
#include "tools/meta_machines.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "assembly/coordinator/registry.h"
#include "group/record.h"
#include "tools/deployment.h"
#include "tools/probe.h"
#include "tools/server_control.h"

namespace spate::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kFirstVoterPort = 7402;
constexpr std::uint32_t kVoterPortsTried = 200;
constexpr std::uint32_t kMetaGroupNumber = 0;  // the group that the meta servers form
constexpr Duration kVoteTimeout = std::chrono::minutes(5);
constexpr Duration kEtcdStartTimeout = std::chrono::seconds(30);
constexpr Duration kRecordTimeout = std::chrono::seconds(60);
constexpr Duration kMetaStartTimeout = std::chrono::seconds(60);
constexpr Duration kCopyTimeout = std::chrono::seconds(60);
constexpr std::chrono::milliseconds kPauseOfLooks(300);

job::Task<void> sleep_once(job::Executor& executor) { std::ignore = co_await executor.sleep(kPauseOfLooks); }
void pause(job::Executor& executor) { executor.run(sleep_once(executor)); }

const coord::Voter* find_voter(const std::vector<coord::Voter>& voters, const std::string& url) {
  const auto found = std::ranges::find(voters, url, &coord::Voter::peer_url);
  return found == voters.end() ? nullptr : &*found;
}

/// Whether the next look may find it otherwise.
bool may_pass(Errc code) {
  return code == Errc::kTryAgain || code == Errc::kUnreachable || code == Errc::kTimeout ||
         code == Errc::kConnectionLost || code == Errc::kConflict || code == Errc::kUnknown;
}

/// etcd takes one new member at a time, and none while one of them is away.
std::string way_out(const std::string& why) {
  const bool waits = why.find("too many learner") != std::string::npos ||
                     why.find("unhealthy cluster") != std::string::npos ||
                     why.find("not enough started members") != std::string::npos;
  return waits ? ". `spate coord list` on a machine with a meta server shows a member that is down or not started yet: "
                 "start its machine, or take the member out by `spate coord remove ID`"
               : "";
}

/// One machine's way into the etcd cluster, in steps that may be repeated.
class Candidate {
 public:
  Candidate(const std::string& folder, FsId fs, const EtcdMember& self, coord::Voters& voters, job::Executor& executor)
      : folder_(folder), fs_(fs), self_(self), voters_(voters), executor_(executor) {}

  /// Stops this machine's member if it has no contact with a majority while another one has. It may belong to an
  /// earlier cluster, and would answer which members that one has.
  Result<void> leave_minority(const std::vector<std::string>& urls) {
    const auto own = executor_.run(voters_.check(client_url(self_), {}));
    if (own.code() != Errc::kTryAgain) return {};
    const bool others_go_on = std::ranges::any_of(
        urls, [&](const std::string& url) { return executor_.run(voters_.check(url, {})).has_value(); });
    return others_go_on ? stop_members(running_supervisors(folder_)) : Result<void>();
  }

  /// Goes on by one step. True: this machine has a vote.
  Result<bool> step() {
    SPATE_TRY(const auto voters, executor_.run(voters_.list({})));
    const coord::Voter* const me = find_voter(voters, peer_url(self_));
    SPATE_TRY(const bool is_whole, has_records(folder_, self_.name));
    const bool has_begun = ::access(begun_mark(folder_, self_.name).c_str(), F_OK) == 0;
    if (me == nullptr) {
      if (is_whole || has_begun) {
        SPATE_TRY(std::ignore, forget_records());
      }
      SPATE_TRY(std::ignore, executor_.run(voters_.add(peer_url(self_), {})));
      return false;
    }
    if (!is_whole && (has_begun || !me->name.empty())) {  // the records of this member are lost
      SPATE_TRY(std::ignore, check_silent(*me));
      SPATE_TRY(std::ignore, executor_.run(voters_.remove(me->id, {})));
      return false;
    }
    if (!is_whole) {  // etcd starts only with the list of members of this moment
      SPATE_TRY(std::ignore, write_member(folder_, settings(voters)));
    }
    SystemClock clock;
    SPATE_TRY(std::ignore, start_members(folder_, clock.now() + kEtcdStartTimeout));
    if (me->learner) {
      SPATE_TRY(std::ignore, executor_.run(voters_.promote(me->id, {})));
    }
    return !me->name.empty() && !me->learner;
  }

 private:
  /// kExists: the member runs with its records, on another machine or from another folder than ours.
  static Result<void> check_silent(const coord::Voter& me) {
    if (me.client_url.empty() || !answers({"tcp" + me.client_url.substr(me.client_url.find("://"))})) return {};
    return Error::told(Errc::kExists, fmt::format("{} answers at {}, and its records are not in this folder: type the "
                                                  "line with the same --storage or --dir as the first time, and with "
                                                  "this machine's own address in --host",
                                                  me.name, me.client_url));
  }
  /// A member that was removed from the cluster cannot come back: it begins anew.
  Result<void> forget_records() {
    SPATE_TRY(std::ignore, stop_members(running_supervisors(folder_)));
    for (const std::string& path : {member_data(folder_, self_.name), begun_mark(folder_, self_.name)}) {
      std::error_code error;
      fs::remove_all(path, error);
      if (error) return errno_error(error.value(), "remove " + path);
    }
    return {};
  }
  EtcdSettings settings(const std::vector<coord::Voter>& voters) const {
    EtcdSettings settings{self_, {}, true, fs_, member_data(folder_, self_.name), certificates_folder(folder_)};
    for (const coord::Voter& voter : voters) {
      const bool own = voter.peer_url == peer_url(self_);
      const std::string name = voter.name.empty() ? fmt::format("new-{:x}", voter.id) : voter.name;
      settings.all.emplace_back(own ? self_.name : name, voter.peer_url);
    }
    return settings;
  }

  const std::string& folder_;
  const FsId fs_;
  const EtcdMember& self_;
  coord::Voters& voters_;
  job::Executor& executor_;
};

/// The record of the group of meta servers; nothing if etcd has none.
Result<std::optional<group::GroupRecord>> read_record(coord::Coordinator& coordinator, job::Executor& executor) {
  const std::string key = group::record_key(kMetaGroupNumber);
  SPATE_TRY(const coord::Snapshot seen, executor.run(coordinator.read(key, {})));
  const coord::Record* const found = seen.find(key);
  if (found == nullptr) return std::optional<group::GroupRecord>();
  SPATE_TRY(group::GroupRecord record, group::decode_group_record(found->value));
  return std::optional(std::move(record));
}

/// kNotPermitted: by the record only this server has everything, so with an empty store it would lead without any name.
Result<void> check_may_be_empty(const std::string& folder, coord::Coordinator& coordinator, job::Executor& executor,
                                ServerId server) {
  SystemClock clock;
  const MonoTime until = clock.now() + kRecordTimeout;
  auto record = read_record(coordinator, executor);
  for (; !record && clock.now() < until; record = read_record(coordinator, executor)) pause(executor);
  if (!record) return std::move(record).error();
  const bool alone = record->has_value() && (*record)->serves(server) && (*record)->serving() == 1;
  if (!alone) return {};
  return Error::told(Errc::kNotPermitted,
                     fmt::format("server {} was the only meta server that held everything, and its store is not in "
                                 "this folder ({}): an empty one would take its place, and the names would be gone. "
                                 "Put the store or a backup of it there, then type `spate up`. If it is gone for good, "
                                 "`spate coord restore --without {}` lets another one lead, which lacks the latest "
                                 "changes",
                                 server.value, folder + "/" + server_name(server), server.value));
}

/// Whether the server says so itself: a record may be older than its store.
bool holds_everything(const std::string& folder, ServerId server) {
  assembly::ClientSettings settings;
  settings.config_file = config_path(folder);
  settings.program = "spate join";
  settings.credential = assembly::own_credential();
  settings.background_thread = false;
  const auto process = assembly::ClientProcess::open(settings);
  const auto pinged = process ? ping(**process, server, {}) : Result<PingResult>(process.error());
  const std::string part = pinged ? part_of(pinged->reply) : "";
  return part == "backup" || part.starts_with("leads");
}

}  // namespace

Result<EtcdMember> voting_member(const std::string& host) {
  std::string name = "etcd-" + host;
  std::erase_if(name, [](char c) { return c == '[' || c == ']'; });
  std::ranges::replace_if(name, [](char c) { return c == ':' || c == '%'; }, '-');
  Result<void> why;
  for (std::uint32_t port = kFirstVoterPort; port < kFirstVoterPort + kVoterPortsTried; port += 2) {
    DeploymentPlan plan;
    plan.meta_servers = plan.io_servers = 0;
    plan.etcd_members = 1;
    plan.first_port = port;
    plan.host = host;
    why = check_ports(plan);
    if (why) return EtcdMember{name, host, port, port + 1};
  }
  return why.error();
}

Result<void> make_first_record(const std::string& folder, const config::FileSystemConfig& config) {
  const std::string mark = no_record_mark(folder);
  if (::access(mark.c_str(), F_OK) != 0) return {};
  std::vector<ServerId> members;
  for (const config::ServerConfig& server : config.servers)
    if (server.roles.meta) members.push_back(server.id);
  std::ranges::sort(members, {}, &ServerId::value);
  group::GroupRecord record = group::new_group(members, config.meta.min_copies);
  for (group::MemberEntry& member : record.members) member.serving = is_here(folder, member.server);
  SystemClock clock;
  job::Executor executor(clock);
  SPATE_TRY(const auto coordinator, assembly::make_coordinator(config, executor));
  const std::string key = group::record_key(kMetaGroupNumber);
  for (const MonoTime until = clock.now() + kRecordTimeout;;) {
    coord::Change change;
    change.compare(key, 0).put(key, group::encode(record));
    const auto made = executor.run(coordinator->change(std::move(change), {}));
    if (made || made.code() == Errc::kConflict) break;  // kConflict: an earlier call has made it
    if (clock.now() >= until) return Error(made.code(), "etcd does not answer: " + made.error().message());
    pause(executor);
  }
  for (const std::string& name : members_of(folder)) {
    SPATE_TRY(const EtcdMember member, read_member(folder, name));
    SPATE_TRY(std::ignore, write_member(folder, only_member(folder, config.fs.id, member, true)));
  }
  if (::unlink(mark.c_str()) != 0) return errno_error(errno, "remove " + mark);
  return {};
}

Result<void> become_voter(const std::string& folder, const config::FileSystemConfig& config, const EtcdMember& self) {
  SystemClock clock;
  job::Executor executor(clock);
  SPATE_TRY(const auto voters, assembly::make_voters(config, executor));
  Candidate candidate(folder, config.fs.id, self, *voters, executor);
  SPATE_TRY(std::ignore, candidate.leave_minority(config.meta.coordinator));
  for (const MonoTime until = clock.now() + kVoteTimeout;;) {
    const auto done = candidate.step();
    if (done && *done) return {};
    if (!done && !may_pass(done.code())) return done.error();
    if (clock.now() >= until) {
      const std::string why =
          done ? "it does not start; its log: " + member_log(folder, self.name) : done.error().message();
      return Error::told(Errc::kTimeout, "this machine has no vote in etcd yet: " + why + way_out(why));
    }
    pause(executor);
  }
}

Result<bool> start_meta_server(const std::string& folder, const config::FileSystemConfig& config, ServerId server) {
  SystemClock clock;
  job::Executor executor(clock);
  SPATE_TRY(const auto coordinator, assembly::make_coordinator(config, executor));
  if (!has_folder(folder, server)) {
    SPATE_TRY(std::ignore, check_may_be_empty(folder, *coordinator, executor, server));
    SPATE_TRY(std::ignore, prepare_server(folder, server));
  }
  if (look_at_server(folder, server).pid == 0) {
    SPATE_TRY(const StartedServer started, start_server(folder, server));
    const std::string why_not = wait_ready(folder, started, clock.now() + kMetaStartTimeout);
    if (!why_not.empty()) {
      std::ignore = stop_server(folder, server, started.pid, std::chrono::seconds(2));
      return Error::told(Errc::kUnreachable, why_not);
    }
  }
  for (const MonoTime until = clock.now() + kCopyTimeout; clock.now() < until;) {
    const auto record = read_record(*coordinator, executor);
    if (record && *record && (*record)->serves(server) && holds_everything(folder, server)) return true;
    pause(executor);
  }
  return false;
}

}  // namespace spate::tools
