// SPDX-License-Identifier: Apache-2.0
#include "nbd/options.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

#include "assembly/locate.h"
#include "base/units.h"
#include "log/log.h"
#include "log/output.h"
#include "nbd/protocol.h"

namespace spate::nbd {
namespace {

constexpr std::string_view kUsage =
    "usage: spate export [OPTION...] SOURCE...\n"
    "Serves files as network block devices (NBD) until it is ended by SIGTERM or SIGINT. SOURCE is a file or block "
    "device\n"
    "of this machine, or spate:/PATH for a striped file; NAME=SOURCE gives the export a name.\n"
    "\n"
    "  -n, --name NAME        the export's name, with a single SOURCE; clients that ask for no name get the first "
    "export\n"
    "  -r, --read-only        refuse writes\n"
    "  -p, --port PORT        TCP port (10809); 0: a free one, which is printed\n"
    "  -b, --bind ADDRESS     listen there (127.0.0.1); may be given several times\n"
    "  -U, --unix PATH        listen at a Unix socket, and at TCP only if --port or --bind is given\n"
    "  -a, --allow [NAME=]LIST  who may use the exports, or the one of that name: addresses, networks (10.0.0.0/8), "
    "\"unix\",\n"
    "                         with TLS cert:NAME (common or DNS name) and psk:NAME, separated by commas; may be "
    "repeated\n"
    "      --tls DIR          TLS by DIR/server-cert.pem and server-key.pem; with DIR/ca-cert.pem clients need a "
    "certificate\n"
    "      --tls-psk FILE     TLS by keys: lines \"name:hex\"\n"
    "      --insecure         other machines may connect without TLS\n"
    "      --sendfile-from N  smallest read, in bytes, that is sent by sendfile; smaller ones are gathered\n"
    "  -t, --threads N        threads that serve connections (1); for files of this machine\n"
    "      --server ID        instead of SOURCE: the exports that spate.toml gives to this server with the role block\n"
    "      --fs FILE          the file system of spate:/PATH: its spate.toml, or the folder that has it\n"
    "      --set KEY=VALUE    overrides spate.toml\n"
    "  -v, --verbose          report each connection\n"
    "  -q, --quiet            do not print the URLs\n"
    "  -h, --help\n"
    "A service manager may pass listening sockets (LISTEN_FDS). docs/block.md has more.\n";

Error wrong(std::string what) { return {Errc::kInvalidArgument, std::move(what)}; }

/// The words of a command line, one after the other.
class Words {
 public:
  explicit Words(const std::vector<std::string>& all) : all_(all) {}
  bool more() const { return next_ < all_.size(); }
  const std::string& take() { return all_[next_++]; }
  /// The value of `option`: the text behind its '=', or the next word.
  Result<std::string> value(const std::string& option, const std::optional<std::string>& given) {
    if (given) return *given;
    if (!more()) return wrong(option + " needs a value");
    return take();
  }

 private:
  const std::vector<std::string>& all_;
  std::size_t next_ = 0;
};

template <typename T>
Result<void> parse_number(const std::string& option, const std::string& text, T& out) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || stop != text.data() + text.size())
    return wrong(option + ": \"" + text + "\" is no number that fits");
  return {};
}

Result<void> parse_send_file_from(const std::string& text, std::uint32_t& out) {
  SPATE_TRY(const std::uint64_t bytes, parse_size(text));
  if (bytes == 0 || bytes > (1ULL << 31U)) return wrong("--sendfile-from: 1 to 2 GiB");
  out = static_cast<std::uint32_t>(bytes);
  return {};
}

/// Options that were read before all sources are known.
struct EarlyOptions {
  std::string name;
  std::vector<std::string> allow;
};

/// Stores the value of an option.
Result<void> store(ExportOptions& options, EarlyOptions& early, const std::string& option, std::string value) {
  if (option == "--port") {
    options.port_given = true;
    return parse_number(option, value, options.port);
  }
  if (option == "--threads") {
    SPATE_TRY(std::ignore, parse_number(option, value, options.threads));
    if (options.threads < 1 || options.threads > 256) return wrong("--threads: 1 to 256");
    return {};
  }
  if (option == "--server") {
    SPATE_TRY(std::ignore, parse_number(option, value, options.server));
    return options.server == 0 ? wrong("--server: 0 is no server's number") : Result<void>();
  }
  if (option == "--sendfile-from") return parse_send_file_from(value, options.send_file_from);
  if (option == "--bind")
    options.addresses.push_back(std::move(value));
  else if (option == "--set")
    options.settings.push_back(std::move(value));
  else if (option == "--name")
    early.name = std::move(value);
  else if (option == "--unix")
    options.unix_path = std::move(value);
  else if (option == "--allow")
    early.allow.push_back(std::move(value));
  else if (option == "--tls")
    options.tls_folder = std::move(value);
  else if (option == "--tls-psk")
    options.tls_keys = std::move(value);
  else if (option == "--fs")
    options.file_system = std::move(value);
  else
    return wrong("unknown option " + option);
  return {};
}

const std::map<std::string, std::string>& long_forms() {
  static const std::map<std::string, std::string> forms{
      {"-n", "--name"},  {"-r", "--read-only"}, {"-p", "--port"},    {"-b", "--bind"},  {"-U", "--unix"},
      {"-a", "--allow"}, {"-t", "--threads"},   {"-v", "--verbose"}, {"-q", "--quiet"}, {"-h", "--help"}};
  return forms;
}

Result<void> take_option(ExportOptions& options, EarlyOptions& early, std::string option, Words& words) {
  std::optional<std::string> given;
  if (const std::size_t equals = option.find('='); option.starts_with("--") && equals != std::string::npos) {
    given = option.substr(equals + 1);
    option.resize(equals);
  }
  if (const auto found = long_forms().find(option); found != long_forms().end()) option = found->second;
  bool* const flag = option == "--read-only"  ? &options.read_only
                     : option == "--insecure" ? &options.insecure
                     : option == "--verbose"  ? &options.verbose
                     : option == "--quiet"    ? &options.quiet
                                              : nullptr;
  if (option == "--help") return Errc::kCancelled;
  if (flag != nullptr) {
    if (given) return wrong(option + " takes no value");
    *flag = true;
    return {};
  }
  SPATE_TRY(std::string value, words.value(option, given));
  return store(options, early, option, std::move(value));
}

/// "NAME=SOURCE", unless that is the name of a file.
SourceParams parse_source(const std::string& word) {
  struct stat st{};
  const std::size_t equals = word.find('=');
  const bool is_path = word.starts_with("spate:") || word.starts_with("/") || ::stat(word.c_str(), &st) == 0;
  SourceParams params;
  params.source = is_path || equals == std::string::npos ? word : word.substr(equals + 1);
  if (params.source.size() < word.size()) params.name = word.substr(0, equals);
  return params;
}

Result<void> check_names(const ExportOptions& options) {
  for (std::size_t i = 0; i < options.sources.size(); ++i) {
    const std::string& name = options.sources[i].name;
    if (name.size() > kMaxString || name.find('\0') != std::string::npos)
      return wrong("a name has at most 4096 characters");
    for (std::size_t j = 0; j < i; ++j) {
      if (options.sources[j].name == name)
        return wrong("two exports are named \"" + name + "\"; NAME=SOURCE names them");
    }
  }
  return {};
}

/// "LIST" is for exports without a list of their own, "NAME=LIST" for one export.
Result<void> give_lists(ExportOptions& options, const std::vector<std::string>& lists) {
  std::string general;
  for (const std::string& list : lists) {
    const std::size_t equals = list.find('=');
    if (equals == std::string::npos) {
      if (!general.empty()) return wrong("--allow: a second list for all exports; NAME=LIST is for one");
      general = list;
      continue;
    }
    const auto found = std::ranges::find(options.sources, list.substr(0, equals), &SourceParams::name);
    if (found == options.sources.end()) return wrong("--allow " + list + ": there is no export of that name");
    if (!found->allow.empty()) return wrong("--allow: a second list for export \"" + found->name + "\"");
    found->allow = list.substr(equals + 1);
  }
  for (SourceParams& params : options.sources) {
    if (params.allow.empty()) params.allow = general;
  }
  return {};
}

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

Result<ExportOptions> parse_export_options(const std::vector<std::string>& arguments) {
  ExportOptions options;
  EarlyOptions early;
  Words words(arguments);
  bool only_sources = false;
  while (words.more()) {
    const std::string& word = words.take();
    if (!only_sources && word == "--") {
      only_sources = true;
    } else if (!only_sources && word.size() > 1 && word.starts_with('-')) {
      SPATE_TRY(std::ignore, take_option(options, early, word, words));
    } else {
      options.sources.push_back(parse_source(word));
    }
  }
  if (options.server != 0) {
    const bool more = !options.sources.empty() || !early.name.empty() || !early.allow.empty() || options.port_given ||
                      !options.addresses.empty() || !options.unix_path.empty() || options.read_only;
    return more ? Result<ExportOptions>(wrong("--server: spate.toml says what the server exports, and where"))
                : options;
  }
  if (options.sources.empty()) return wrong("name at least one source to export");
  if (!early.name.empty() && options.sources.size() > 1)
    return wrong("--name is for a single SOURCE; NAME=SOURCE names each of several");
  if (!early.name.empty()) options.sources.front().name = early.name;
  for (SourceParams& params : options.sources) params.read_only = options.read_only;
  SPATE_TRY(std::ignore, check_names(options));
  SPATE_TRY(std::ignore, give_lists(options, early.allow));
  return options;
}

std::string_view export_usage() { return kUsage; }

Result<std::vector<config::Override>> settings_of(const ExportOptions& options) {
  SPATE_TRY(auto overrides, config::overrides_from_environment(assembly::whole_environment()));
  for (const std::string& setting : options.settings) {
    SPATE_TRY(auto one, config::override_from_argument(setting));
    overrides.push_back(std::move(one));
  }
  return overrides;
}

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
