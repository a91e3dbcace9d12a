// SPDX-License-Identifier: Apache-2.0
#include "assembly/client_process.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "assembly/proofs.h"
#include "assembly/registry.h"
#include "config/key_file.h"
#include "datatype/description.h"
#include "log/fields.h"
#include "log/log.h"
#include "rpc/munge.h"

namespace spate::assembly {
namespace {

/// The batch job that this process belongs to, if any.
std::string batch_job() {
  for (const char* const name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return std::string(value).substr(0, config::kMaxTagBytes);
  }
  return {};
}

/// "HOST:PID:PROGRAM", or "HOST:PID:PROGRAM:TAG"; only TAG may contain colons.
std::string describe_process(std::string program, const std::string& tag) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  std::replace(program.begin(), program.end(), ':', '_');
  std::string text = std::string(host.data()) + ":" + std::to_string(::getpid()) + ":" + program;
  const std::string works_for = tag.empty() ? batch_job() : tag;
  if (!works_for.empty()) text += ":" + works_for;
  return text;
}

client::Atime atime_policy(config::AtimePolicy policy) {
  switch (policy) {
    case config::AtimePolicy::kNoatime: return client::Atime::kNever;
    case config::AtimePolicy::kStrictatime: return client::Atime::kAlways;
    case config::AtimePolicy::kRelatime: break;
  }
  return client::Atime::kRelative;
}

bool keeps_attributes(const ClientSettings& settings, config::AttributeCache wanted) {
  switch (wanted) {
    case config::AttributeCache::kOff: return false;
    case config::AttributeCache::kOn: return settings.may_keep_attributes;
    case config::AttributeCache::kAll: break;
  }
  return settings.may_keep_attributes || settings.background_thread || settings.progress_thread;
}

/// A running program may switch to a newer key, but only to one of the same user.
Result<ClientKey> newer_key(const std::string& file, std::uint32_t uid) {
  SPATE_TRY(ClientKey key, config::read_client_key(file));
  if (!key.is_users()) return key;
  SPATE_TRY(const UserKey restrictions, decode_user_key(key.restrictions));
  if (restrictions.user.uid == uid) return key;
  return Error::told(Errc::kNotPermitted, file + " holds a key of another user now");
}

/// Reads the key. The holder of a user's key acts as that user, in the groups that the key names: the servers admit
/// nothing else.
Result<void> use_client_key(const std::string& file, client::Options& options) {
  SPATE_TRY(options.client_key, config::read_client_key(file));
  if (options.client_key->is_users()) {
    SPATE_TRY(const UserKey restrictions, decode_user_key(options.client_key->restrictions));
    options.credential = restrictions.user;
    if (restrictions.read_only) options.atime = client::Atime::kNever;
  }
  options.newer_client_key = [file, uid = options.credential.uid] { return newer_key(file, uid); };
  return {};
}

/// The uid that the servers run as. `user` is a user's name or number, or "same" for this process's own uid.
Result<std::uint32_t> uid_of_servers(const std::string& user) {
  if (user == "same") return ::geteuid();
  std::uint32_t uid = 0;
  const auto [end, error] = std::from_chars(user.data(), user.data() + user.size(), uid);
  if (error == std::errc() && end == user.data() + user.size()) return uid;
  std::array<char, 16384> text{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwnam_r(user.c_str(), &entry, text.data(), text.size(), &found) == 0 && found != nullptr)
    return found->pw_uid;
  return Error::told(Errc::kInvalidArgument, "auth.munge_server_user: this machine has no user " + user.substr(0, 64));
}

/// Whether this process is not meant to hold the key, unlike one whose key file is malformed.
bool is_no_key(Errc code) { return code == Errc::kNotFound || code == Errc::kPermissionDenied; }

/// The servers learn from munge which user runs this process, and trust nothing else. Root is squashed.
Result<void> use_munge(const config::FileSystemConfig& config, client::Options& options) {
  SPATE_TRY(const std::uint32_t servers, uid_of_servers(config.auth.munge_server_user));
  SPATE_TRY(const auto munge, rpc::Munge::open({config.auth.munge_socket, servers}));
  options.credential = squash_root(own_credential());
  options.fresh_key = [munge, fs = config.fs.id](ServerId server) { return munge->key_for(fs, server); };
  return {};
}

/// Makes ready what this process can prove at the servers' addresses. Where keys are asked for and other proofs as
/// well, a process without a key does with the others. One that has a key never proves less by munge.
Result<void> use_proofs(const config::FileSystemConfig& config, client::Options& options) {
  using config::Auth;
  if (config.auth.munge) return use_munge(config, options);
  const bool others = asks_for(config, Auth::kNone) || asks_for(config, Auth::kTls);
  const bool by_munge = asks_for(config, Auth::kMunge);
  if (asks_for(config, Auth::kKey)) {
    auto held = use_client_key(config.fs.client_key_file, options);
    if (held || !is_no_key(held.code()) || (!others && !by_munge)) return held;
    SPATE_LOG("assembly", debug, "addresses that ask for a key are not used: {}", held.error());
  }
  if (!by_munge) return {};
  auto made = use_munge(config, options);
  if (!made && others && made.code() == Errc::kNotSupported) return {};
  return made;
}

}  // namespace

Credential own_credential() {
  Credential credential;
  credential.uid = ::geteuid();
  credential.gid = ::getegid();
  std::array<gid_t, 65536> all;
  const int n = ::getgroups(static_cast<int>(all.size()), all.data());
  for (int i = 0; i < n && credential.groups.size() < kMaxGroups; ++i)
    credential.groups.push_back(all[static_cast<std::size_t>(i)]);
  return credential;
}

ClientProcess::ClientProcess(config::FileSystemConfig config)
    : config_(std::move(config)), executor_(clock_, {nullptr, config_.client.busy_poll}) {}

Result<std::unique_ptr<ClientProcess>> ClientProcess::open(const ClientSettings& settings) {
  SPATE_TRY(auto loaded, config::load_file(settings.config_file, settings.overrides));
  std::unique_ptr<ClientProcess> process(new ClientProcess(std::move(loaded.config)));
  client::Options options;
  options.map = config::cluster_map(process->config_);
  options.credential = settings.credential;
  options.handshake = handshake_policy(process->config_);
  options.handshake.asked.avoided = urls_to_avoid(process->config_);
  options.description = describe_process(settings.program, process->config_.client.tag);
  options.deadline = settings.deadline.value_or(process->config_.client.deadline);
  options.bypass = static_cast<client::BypassMode>(process->config_.client.bypass);
  // The largest message must hold a request with a list and inline data.
  const std::uint64_t request = process->config_.network.max_unexpected;
  options.max_list_pieces =
      std::min<std::uint64_t>(options.max_list_pieces, request / 2 / datatype::kEncodedPieceBytes);
  options.inline_write_bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(options.inline_write_bytes, request / 4));
  options.handover = settings.handover;
  options.atime = atime_policy(process->config_.client.atime);
  const bool keeps = keeps_attributes(settings, process->config_.client.attribute_cache);
  options.keep_attributes = keeps;
  options.listings = settings.listings;
  options.copies = settings.copies;
  options.gather = settings.gather;
  options.queue = settings.queue;
  options.on_wait = settings.on_wait;
  SPATE_TRY(std::ignore, use_proofs(process->config_, options));
  if (settings.server_key) {  // servers need the key whatever `auth` says
    SPATE_TRY(options.server_key, config::read_key_file(process->config_.fs.server_key_file));
  }
  SPATE_TRY(process->network_, make_network(process->clock_, process->config_, settings.server_key));
  process->context_ = std::make_unique<job::NetworkContext>(*process->network_, process->executor_);
  process->client_ = std::make_unique<client::Client>(std::move(options), *process->context_, process->random_);
  // The server may recall an append right from this client at any time. Looking once a second would answer too late.
  const client::ProgressMode progress_mode = settings.progress_thread              ? client::ProgressMode::kAlways
                                             : keeps || settings.background_thread ? client::ProgressMode::kReady
                                                                                   : client::ProgressMode::kNone;
  process->driver_ = std::make_unique<client::Driver>(process->executor_, progress_mode);
  return process;
}

ClientProcess::~ClientProcess() {
  if (client_ != nullptr && client_->keeps_attributes()) {
    const auto kept = client_->cluster().attributes().counters();
    SPATE_LOG("client", debug, "ending answered_from_leases={} asked={} recalled={}", kept.hits, kept.misses,
              kept.recalls);
  }
  if (driver_ != nullptr) driver_->run([this]() { return client_->stop(); });
}

}  // namespace spate::assembly
