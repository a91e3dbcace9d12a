// SPDX-License-Identifier: Apache-2.0
// The members of an etcd cluster that Spate sets up by itself: their settings, and those that `spate up` runs below
// its folder.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/ids.h"

namespace spate::tools {

struct EtcdMember {
  std::string name;  // "etcd-1"
  std::string host;
  std::uint32_t client_port = 0;
  std::uint32_t peer_port = 0;
};
std::string client_url(const EtcdMember& member);
std::string peer_url(const EtcdMember& member);

struct EtcdSettings {
  EtcdMember self;
  std::vector<std::pair<std::string, std::string>> all;  // names and peer URLs of the members, self among them
  bool joins = false;                                    // the others have a cluster already
  FsId fs;                                               // members of different file systems do not talk to each other
  std::string data;                                      // folder of its records
  std::string tls;                                       // folder of certificates (certificates.h)
  std::uint64_t beginning = 0;  // differs for each cluster that these machines have begun one after the other
};
/// The file for `etcd --config-file`.
std::string settings_text(const EtcdSettings& settings);

/// The program `etcd`; kNotFound names the package.
Result<std::string> etcd_program();

// Below the folder of a deployment: coord/tls, coord/etcd-N.json, coord/etcd-N, log/etcd-N.log.

inline constexpr std::uint32_t kVotes = 3;  // members on one machine: the majority survives the end of one process

/// The members of a new deployment on loopback. Member i has the ports first_port + 2i and first_port + 2i + 1.
std::vector<EtcdMember> planned_members(std::uint32_t count, std::uint32_t first_port);
std::string certificates_folder(const std::string& folder);
std::string member_settings(const std::string& folder, const std::string& name);
std::string member_data(const std::string& folder, const std::string& name);
/// The member whose settings the folder holds.
Result<EtcdMember> read_member(const std::string& folder, const std::string& name);
/// Whether the folder holds records of the member. An error is no answer: its disk may be away for now.
Result<bool> has_records(const std::string& folder, const std::string& name);
/// kNotFound: the member has run, and its records are lost. If it went on without them under the same identity, it
/// could break what it has promised to the others. Not for members of a cluster on one machine (`spate up`): all of
/// them may begin anew together.
Result<void> check_records(const std::string& folder, const std::string& name);
/// A file that is there when a member has had records.
std::string begun_mark(const std::string& folder, const std::string& name);
/// Writes the settings of one member, unless they are so already.
Result<void> write_member(const std::string& folder, const EtcdSettings& settings);
Result<void> create_members(const std::string& folder, FsId fs, const std::vector<EtcdMember>& members);
/// Names of the members whose settings the folder holds, sorted. Empty if the file system uses another etcd cluster.
std::vector<std::string> members_of(const std::string& folder);
std::string member_log(const std::string& folder, const std::string& name);

/// A running supervisor: the process that keeps one member running.
struct EtcdSupervisor {
  int pid = 0;
  std::string name;
};
std::vector<EtcdSupervisor> running_supervisors(const std::string& folder);
/// Starts supervisors for members that have none, and waits until each member listens. Yields those started.
Result<std::vector<EtcdSupervisor>> start_members(const std::string& folder, MonoTime until);
/// Ends supervisors and with them their members.
Result<void> stop_members(const std::vector<EtcdSupervisor>& supervisors);

/// Runs as a supervisor until SIGTERM: starts `etcd`, and starts it again whenever it ends. The member ends when this
/// process ends, in whatever way. Returns the exit code.
int keep_member(const std::string& folder, const std::string& name);

}  // namespace spate::tools
