// SPDX-License-Identifier: Apache-2.0
#include "tools/asker.h"

#include <algorithm>

#include "tools/fsck.h"
#include "tools/name_space.h"
#include "tools/probe.h"

namespace spate::tools {
namespace {

job::Task<void> pass(client::Client& client, Duration span) {
  std::ignore = co_await client.cluster().executor().sleep(span);
}

}  // namespace

Result<Asker> Asker::open(Context& context) {
  Asker asker;
  context.names_dead_servers = false;
  SPATE_TRY(asker.process_, context.file_system());
  for (const config::ServerConfig& server : asker.process_->config().servers) {
    if (server.roles.meta && !surely_down(server.urls)) return asker;
  }
  SPATE_TRY(const std::string file, context.config_file());
  SPATE_TRY(assembly::ClientSettings settings, context.client_settings(file));
  settings.server_key = true;
  auto keyed = assembly::ClientProcess::open(settings);
  if (!keyed) {
    return std::move(keyed).error().within(
        "the meta server is down; without it, only users who can read the server key may ask");
  }
  asker.keyed_ = *std::move(keyed);
  client::Session& session = asker.keyed_->client().session();
  fsck::ServersOptions options = servers_options(session);
  options.deadline = options.io_deadline = kDeadline;
  asker.servers_ = std::make_unique<fsck::Servers>(std::move(options), session.network(), asker.keyed_->random());
  return asker;
}

Result<void> Asker::connect() {
  if (keyed_ == nullptr) return process_->run([](client::Client& client) { return client.connect(); });
  servers_->forget_failures();
  return {};
}

void Asker::wait(Duration span) {
  process_->run([&](client::Client& client) { return pass(client, span); });
}

Result<rpc::Channel*> Asker::channel(ServerId server) {
  const auto& channels = process_->client().session().servers().channels();
  const auto found = channels.find(server);
  if (found == channels.end()) return Error::told(Errc::kNotFound, "there is no such server in spate.toml");
  return found->second.get();
}

Result<std::vector<ServerId>> chosen_servers(const config::FileSystemConfig& config,
                                             const std::vector<std::string>& numbers) {
  std::vector<ServerId> servers;
  for (const config::ServerConfig& server : config.servers) {
    const bool named = std::find(numbers.begin(), numbers.end(), std::to_string(server.id.value)) != numbers.end();
    if (numbers.empty() || named) servers.push_back(server.id);
  }
  if (!numbers.empty() && servers.size() != numbers.size()) {
    return Error::told(Errc::kInvalidArgument,
                       "a SERVER is the number of a server in spate.toml; `spate status` lists them");
  }
  return servers;
}

}  // namespace spate::tools
