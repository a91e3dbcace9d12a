// SPDX-License-Identifier: Apache-2.0
#include "nbd/role.h"

#include "assembly/client_process.h"
#include "assembly/locate.h"
#include "config/load.h"
#include "log/log.h"
#include "log/output.h"

namespace spate::nbd {
namespace {

Result<void> set_up_log(const config::LogConfig& config) {
  SPATE_TRY(std::ignore, log::set_levels(config.level));
  log::set_format(config.format == config::LogFormat::kJson ? log::Format::kJson : log::Format::kText);
  return config.file.empty() ? Result<void>() : log::open_file(config.file);
}

SourceParams params_of(const config::ExportConfig& one) {
  SourceParams params;
  params.name = one.name;
  params.source = one.source;
  params.read_only = one.read_only;
  for (const std::string& word : one.allow) params.allow += (params.allow.empty() ? "" : ",") + word;
  return params;
}

}  // namespace

Result<ExportOptions> options_of_server(const ExportOptions& given) {
  SPATE_TRY(const std::string file, assembly::locate_config(given.file_system));
  SPATE_TRY(auto overrides, settings_of(given));
  SPATE_TRY(const auto loaded, config::load_file(file, std::move(overrides)));
  const config::FileSystemConfig& config = loaded.config;
  const config::ServerConfig* const server = config.find_server(ServerId(given.server));
  const std::string name = "server " + std::to_string(given.server);
  if (server == nullptr) return Error(Errc::kNotFound, "there is no " + name + " in " + file);
  if (!server->roles.block) return Error(Errc::kInvalidArgument, name + " in " + file + " has not the role block");
  SPATE_TRY(std::ignore, set_up_log(config.log));
  ExportOptions options = given;
  options.file_system = file;
  options.addresses = config.block.addresses;
  options.port = static_cast<std::uint16_t>(config.block.port);
  options.port_given = !options.addresses.empty();
  options.unix_path = config.block.unix_path;
  options.tls_folder = config.block.tls;
  options.tls_keys = config.block.tls_psk;
  options.insecure = config.block.insecure;
  options.keep_trying = true;
  for (const config::ExportConfig& one : config.exports) {
    if (one.server.value == 0 || one.server == server->id) options.sources.push_back(params_of(one));
  }
  return options;
}

}  // namespace spate::nbd
