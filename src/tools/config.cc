// SPDX-License-Identifier: Apache-2.0
// `spate config check`, `show`, `explain` and `here`.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

#include "assembly/keyval_place.h"
#include "assembly/tls_keys.h"
#include "config/describe.h"
#include "config/key_file.h"
#include "config/keys.h"
#include "log/log.h"
#include "rpc/munge.h"
#include "tools/commands.h"
#include "tools/name_space.h"
#include "tools/own_address.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

struct ConfigOptions {
  std::string action;
  std::string what;
};

struct Loaded {
  std::string file;
  config::LoadedConfig config;
};

Result<Loaded> load(Context& context, const std::string& file) {
  Loaded loaded;
  loaded.file = file;
  if (file.empty()) {
    SPATE_TRY(loaded.file, context.config_file());
  }
  SPATE_TRY(auto values, context.config_overrides());
  SPATE_TRY(loaded.config, config::load_file(loaded.file, std::move(values)));
  return loaded;
}

/// Checks that the servers make at their start, beyond the rules for single keys.
std::vector<std::string> look_at_values(const config::FileSystemConfig& config, bool& usable) {
  std::vector<std::string> remarks;
  const auto levels = log::set_levels(config.log.level);
  std::ignore = log::set_levels("error");  // this command's own log
  if (!levels) {
    usable = false;
    remarks.push_back("log.level: " + levels.error().context());
  }
  return remarks;
}

/// Whether all addresses mean the own machine.
bool all_servers_here(const config::FileSystemConfig& config) {
  const auto here = [](const std::string& url) {
    const std::string_view host = std::string_view(url).substr(url.find("://") + 3);
    return url.starts_with("shm://") ||
           (config::is_tcp_url(url) &&
            (host.starts_with("127.") || host.starts_with("localhost:") || host.starts_with("[::1]:")));
  };
  return std::all_of(config.servers.begin(), config.servers.end(), [&](const config::ServerConfig& server) {
    return std::all_of(server.urls.begin(), server.urls.end(), here);
  });
}

/// The addresses at which nothing is asked for.
std::vector<std::string> open_addresses(const config::FileSystemConfig& config) {
  std::vector<std::string> remarks;
  bool by_default = false;
  for (const config::ServerConfig& server : config.servers) {
    by_default = by_default || (server.auth.empty() && config.fs.auth == config::Auth::kNone);
    for (std::size_t i = 0; !server.auth.empty() && i < server.urls.size(); ++i) {
      if (auth_at(config, server, i) == config::Auth::kNone)
        remarks.push_back(fmt::format("servers.auth of server {} is \"none\" at {}: it admits every client there",
                                      server.id.value, server.urls[i]));
    }
  }
  if (by_default) remarks.emplace_back("auth = \"none\": a server admits every client that reaches it");
  return remarks;
}

/// Checks this machine's files. A missing key or folder may belong to another host, so it gives a remark, not an error.
std::vector<std::string> look_at_keys(const config::FileSystemConfig& config, bool& usable) {
  std::vector<std::string> remarks = open_addresses(config);
  const bool keys = asks_for(config, config::Auth::kKey);
  const bool by_munge = config.auth.munge || asks_for(config, config::Auth::kMunge);
  if (!keys && !by_munge) return remarks;
  const auto client_key = keys ? config::read_client_key(config.fs.client_key_file) : Error(Errc::kNotFound, "a key");
  const auto munge = by_munge ? rpc::Munge::open({}) : Result<std::shared_ptr<const rpc::Munge>>(nullptr);
  if (!munge) {
    usable = usable && client_key && !config.auth.munge;
    remarks.push_back(munge.error().message());
  }
  if (keys && !client_key && !by_munge) {  // with munge, clients need none
    usable = false;
    remarks.push_back(client_key.error().message());
  }
  if (::access(config.fs.server_key_file.c_str(), F_OK) != 0) {
    usable = usable && !all_servers_here(config);
    remarks.push_back(config.fs.server_key_file + ": not on this machine, so no server can run here");
  } else if (const auto server_key = config::read_key_file(config.fs.server_key_file);
             !server_key && ::access(config.fs.server_key_file.c_str(), R_OK) == 0) {
    usable = false;
    remarks.push_back(server_key.error().message());
  }
  return remarks;
}

/// Tells of a file that has expired, or does so in 30 days.
void look_at_end(const std::string& file, std::chrono::seconds left, bool& usable, std::vector<std::string>& remarks) {
  const auto days = std::chrono::floor<std::chrono::days>(left).count();
  usable = usable && left.count() > 0;
  if (left.count() <= 0) {
    remarks.push_back(fmt::format("{} has expired {} days ago", file, -days));
  } else if (left < std::chrono::days(30)) {
    remarks.push_back(fmt::format("{} expires in {} days", file, days));
  }
}

/// Reads the files of [tls] as servers and clients do.
std::vector<std::string> look_at_tls(const config::FileSystemConfig& config, bool& usable) {
  const auto tls = assembly::make_tls(config, false);
  if (tls == nullptr) return {};
  if (const auto opened = tls->open(); !opened) {
    usable = false;
    return {"tls: " + opened.error().message()};
  }
  const auto facts = tls->facts();
  if (!facts) return {};
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  std::vector<std::string> remarks;
  if (now < facts->not_before) {
    usable = false;
    remarks.push_back("tls.certificate: " + config.tls.certificate + " is not valid yet: look at the clock");
  }
  look_at_end("tls.certificate: " + config.tls.certificate, facts->not_after - now, usable, remarks);
  if (facts->lists_end) look_at_end("tls.revoked: " + config.tls.revoked, *facts->lists_end - now, usable, remarks);
  return remarks;
}

int check_file(Context& context, const std::string& file) {
  auto loaded = load(context, file);
  if (!loaded) {
    if (context.json) context.print_json({{"ok", false}, {"error", loaded.error().context()}});
    return context.fail(loaded.error());
  }
  bool usable = true;
  std::vector<std::string> remarks = look_at_values(loaded->config.config, usable);
  for (std::string& remark : look_at_keys(loaded->config.config, usable)) remarks.push_back(std::move(remark));
  for (std::string& remark : look_at_tls(loaded->config.config, usable)) remarks.push_back(std::move(remark));
  if (context.json) {
    context.print_json({{"ok", usable},
                        {"file", loaded->file},
                        {"servers", loaded->config.config.servers.size()},
                        {"remarks", remarks}});
  } else {
    print(fmt::format("{}: {}, {} servers\n", loaded->file, usable ? "ok" : "cannot be used here",
                      loaded->config.config.servers.size()));
    for (const std::string& remark : remarks) print("  " + remark + "\n");
  }
  return usable ? kExitOk : kExitFailed;
}

bool wanted(const std::string& name, const std::string& what) {
  return what.empty() || name == what || name.starts_with(what + ".") || name.starts_with(what + "[");
}

/// Our TOML values (basic strings, numbers, booleans, lists of them) are valid JSON.
nlohmann::json as_json(const std::string& toml) {
  nlohmann::json value = nlohmann::json::parse(toml, nullptr, false);
  return value.is_discarded() ? nlohmann::json(toml) : value;
}

int run_show(Context& context, const std::string& what) {
  auto loaded = load(context, {});
  if (!loaded) return context.fail(loaded.error());
  std::vector<config::Setting> chosen;
  for (config::Setting& setting : config::settings(loaded->config)) {
    if (wanted(setting.name, what)) chosen.push_back(std::move(setting));
  }
  if (chosen.empty()) {
    const auto known = config::explain(what);  // its error names the nearest key
    return context.fail(known ? Error(Errc::kNotFound, what) : known.error());
  }
  if (context.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const config::Setting& setting : chosen)
      rows.push_back({{"key", setting.name}, {"value", as_json(setting.value)}, {"origin", setting.origin}});
    context.print_json(rows);
  } else if (what.empty()) {
    print("# " + loaded->file + "\n" + config::show(loaded->config));
  } else {
    for (const config::Setting& setting : chosen)
      print(fmt::format("{} = {}  # {}\n", setting.name, setting.value, setting.origin));
  }
  return kExitOk;
}

int run_explain(Context& context, const std::string& what) {
  auto text = config::explain(what);
  if (!text) return context.fail(text.error());
  if (context.json) {
    nlohmann::json rows = nlohmann::json::array();
    for (const config::Explanation& one : config::explanations(what)) {
      rows.push_back({{"key", one.key},
                      {"meaning", one.meaning},
                      {"allowed", one.allowed},
                      {"default", one.default_value},
                      {"variable", one.variable}});
    }
    context.print_json(rows);
    return kExitOk;
  }
  print(*text);
  return kExitOk;
}

/// Prints the servers whose addresses are this machine's, one a line: number and folders of stores, separated by tabs.
int show_servers_here(Context& context, const config::FileSystemConfig& config) {
  nlohmann::json rows = nlohmann::json::array();
  for (const config::ServerConfig& server : config.servers) {
    if (!belongs_here(server)) continue;
    std::vector<std::string> folders = server.storage;
    if (server.roles.meta || server.roles.io) folders.push_back(assembly::keyval_folder(server));
    rows.push_back({{"server", server.id.value}, {"folders", folders}});
    if (context.json) continue;
    std::string line = std::to_string(server.id.value);
    for (const std::string& folder : folders) line += "\t" + printable(folder);
    print(line + "\n");
  }
  if (context.json) context.print_json(rows);
  return kExitOk;
}

int run_config(Context& context, const ConfigOptions& options) {
  if (options.action == "check") return check_file(context, options.what);
  if (options.action == "show") return run_show(context, options.what);
  if (options.action == "explain") return run_explain(context, options.what);
  if (options.action == "here") {
    const auto loaded = load(context, {});
    return loaded ? show_servers_here(context, loaded->config.config) : context.fail(loaded.error());
  }
  return context.usage("config takes check, show, explain or here, not \"" + options.action + "\"");
}

std::vector<std::string> key_names() {
  std::vector<std::string> all;
  for (const config::Key& key : config::keys()) all.push_back(key.full_name());
  return all;
}

}  // namespace

Command make_config() {
  auto options = std::make_shared<ConfigOptions>();
  Command command;
  command.name = "config";
  command.group = "Start and stop";
  command.summary = "check spate.toml, show the values in use and the servers of this machine, explain its keys";
  command.details =
      "config check [FILE]     report every mistake of the file, and whether the keys can be read\n"
      "config show [KEY]       print each value in use and its source: file and line, environment, --set, default\n"
      "config explain [KEY]    print what a key or a section means, what is allowed, its default and its variable\n"
      "config here             list the servers that have an address of this machine, with the folders of their stores";
  command.positionals = {
      {"ACTION", "check, show, explain or here", &options->action, true, {"check", "show", "explain", "here"}},
      {"WHAT", "a file (check), a key or section such as meta.sync (show, explain)", &options->what}};
  command.positionals.back().offers = key_names;
  command.run = [options](Context& context) { return run_config(context, *options); };
  return command;
}

}  // namespace spate::tools
