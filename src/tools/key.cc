// SPDX-License-Identifier: Apache-2.0
// `spate key`: keys that are good for one user.
#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/units.h"
#include "config/key_file.h"
#include "tools/commands.h"
#include "tools/key_record.h"
#include "wire/handshake.h"
#include "wire/key_messages.h"

namespace spate::tools {
namespace {

struct KeyOptions {
  std::string action;
  std::vector<std::string> ids;
  std::string uid;     // a number or a name; empty: not given
  std::string gid;     // the same
  std::string groups;  // separated by commas; empty: not given
  bool read_only = false;
  std::string path;  // of a directory; empty: not given
  std::string until;
  std::string output;
};

/// What names a user or group: its number, or its name on this machine.
struct AccountKind {
  std::string_view word;
  std::optional<std::uint32_t> (*find)(const char* name);
};
constexpr AccountKind kUserAccount{"user", [](const char* name) -> std::optional<std::uint32_t> {
                                     const passwd* const entry = ::getpwnam(name);
                                     return entry == nullptr ? std::nullopt : std::optional(entry->pw_uid);
                                   }};
constexpr AccountKind kGroupAccount{"group", [](const char* name) -> std::optional<std::uint32_t> {
                                      const struct ::group* const entry = ::getgrnam(name);
                                      return entry == nullptr ? std::nullopt : std::optional(entry->gr_gid);
                                    }};

Result<std::uint32_t> number_of(const std::string& word, const AccountKind& kind) {
  const bool digits = !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
  if (digits) {
    const std::uint64_t number = word.size() <= 10 ? std::stoull(word) : UINT64_MAX;
    if (number < UINT32_MAX) return static_cast<std::uint32_t>(number);
    return Error::told(Errc::kInvalidArgument, fmt::format("\"{}\" is not the numeric id of a {}", word, kind.word));
  }
  if (const auto number = kind.find(word.c_str())) return *number;
  return Error::told(Errc::kInvalidArgument,
                     fmt::format("this machine knows no {0} \"{1}\": give the number of the {0}", kind.word, word));
}

/// The user's groups as this machine knows them.
Result<Credential> user_here(std::uint32_t uid) {
  const passwd* const entry = ::getpwuid(uid);
  if (entry == nullptr) {
    return Error::told(Errc::kNotFound, fmt::format("this machine knows no user {}, and so not the user's groups: name "
                                                    "them with --gid and --groups",
                                                    uid));
  }
  Credential user{uid, entry->pw_gid, {}};
  std::array<gid_t, 65536> all;
  int count = static_cast<int>(all.size());
  if (::getgrouplist(entry->pw_name, entry->pw_gid, all.data(), &count) < 0) count = static_cast<int>(all.size());
  const auto has_a_place = [&](gid_t group) { return group != 0 && group != user.gid; };
  std::copy_if(all.begin(), all.begin() + count, std::back_inserter(user.groups), has_a_place);
  return user;
}

Result<Credential> chosen_user(const KeyOptions& options) {
  SPATE_TRY(const std::uint32_t uid, number_of(options.uid, kUserAccount));
  Credential user{uid, 0, {}};
  if (options.gid.empty()) {
    SPATE_TRY(user, user_here(uid));
  } else {
    SPATE_TRY(user.gid, number_of(options.gid, kGroupAccount));
  }
  if (!options.groups.empty()) user.groups.clear();
  std::istringstream words(options.groups == "none" ? "" : options.groups);
  for (std::string word; std::getline(words, word, ',');) {
    SPATE_TRY(const std::uint32_t gid, number_of(word, kGroupAccount));
    if (gid != user.gid) user.groups.push_back(gid);
  }
  std::ranges::sort(user.groups);
  user.groups.erase(std::ranges::unique(user.groups).begin(), user.groups.end());
  return user;
}

Result<UserKey> restrictions_of(const KeyOptions& options, Handle directory, Random& random) {
  UserKey key;
  key.directory = directory;
  random.fill(key.id);
  SPATE_TRY(key.user, chosen_user(options));
  key.read_only = options.read_only;
  if (!options.until.empty()) {
    SPATE_TRY(key.until, parse_time(options.until));
    if (key.ended(SystemClock().wall()))
      return Error::told(Errc::kInvalidArgument, "the key would have expired already, on " + format_time(key.until));
  }
  if (const std::string fault = fault_of(key); !fault.empty()) return Error::told(Errc::kInvalidArgument, fault);
  return key;
}

ClientKey derive(FsId fs, const Key& client_key, const UserKey& restrictions) {
  const wire::FileKey issuer(fs, client_key);
  ClientKey key;
  key.issuer = issuer.id();
  key.restrictions = encoded(restrictions);
  key.secret = issuer.for_user(key.restrictions).secret;
  return key;
}

nlohmann::json json_of(const UserKey& key, const std::string& path) {
  nlohmann::json row = {{"id", text_of(key.id)},     {"uid", key.user.uid},        {"gid", key.user.gid},
                        {"groups", key.user.groups}, {"read_only", key.read_only}, {"until_ns", key.until.ns}};
  if (!key.directory) return row;
  row["directory"] = key.directory.value;
  row["path"] = path;
  return row;
}

/// The object at the path. A symbolic link is refused, also on the way: its owner may change where it leads, and the
/// key would not be good for the directory that its file names.
Result<wire::ObjectReply> stat_without_links(assembly::ClientProcess& process, const std::string& path) {
  for (std::size_t end = path.find_first_not_of('/'); end < path.size();) {
    end = std::min(path.find('/', end), path.size());
    const std::string part = path.substr(0, end);
    SPATE_TRY(const auto found,
              process.run([&](client::Client& client) { return client.stat(client::path_from_root(part, false)); }));
    if (found.attributes.type == FileType::kSymlink)
      return Error::told(Errc::kInvalidArgument, part + " is a symbolic link: name the directory itself");
    end = path.find_first_not_of('/', end);
  }
  return process.run([&](client::Client& client) { return client.stat(client::path_from_root(path, false)); });
}

/// The directory that the option names, or none.
Result<Handle> chosen_directory(Context& context, const KeyOptions& options, const std::string& path) {
  if (options.path.empty()) return Handle();
  SPATE_TRY(assembly::ClientProcess * process, context.file_system());
  SPATE_TRY(const auto found, stat_without_links(*process, path));
  if (found.attributes.type != FileType::kDirectory)
    return Error::told(Errc::kNotDirectory, options.path + " is no directory: a key is confined to a directory");
  if (found.attributes.handle == kRootHandle)
    return Error::told(Errc::kInvalidArgument, "a key for / is a key without --path");
  return found.attributes.handle;
}

Result<config::FileSystemConfig> load(Context& context) {
  SPATE_TRY(const std::string file, context.config_file());
  SPATE_TRY(const auto overrides, context.config_overrides());
  SPATE_TRY(auto loaded, config::load_file(file, overrides));
  if (asks_for(loaded.config, config::Auth::kKey)) return std::move(loaded.config);
  return Error::told(Errc::kNotSupported, "no address of this file system asks for a key (fs.auth, servers.auth)");
}

int issue(Context& context, const KeyOptions& options) {
  if (options.uid.empty()) return context.usage("key issue needs --uid");
  const auto config = load(context);
  if (!config) return context.fail(config.error());
  const std::string& file = config->fs.client_key_file;
  const auto client_key = config::read_key_file(file);
  if (!client_key) return context.fail(client_key.error());
  const std::string path = is_remote(options.path) ? remote_path(options.path) : options.path;
  const auto directory = chosen_directory(context, options, path);
  if (!directory) return context.fail(directory.error(), options.path);
  SystemRandom random;
  const auto restrictions = restrictions_of(options, *directory, random);
  if (!restrictions) return context.usage(restrictions.error().message());
  const ClientKey key = derive(config->fs.id, *client_key, *restrictions);
  const std::string about = in_words(*restrictions, path);
  if (const auto noted = record_key(file, *restrictions, about); !noted) return context.fail(noted.error());
  if (!options.output.empty()) {
    const auto made = config::create_user_key_file(options.output, key, path);
    if (!made) return context.fail(made.error());
  }
  nlohmann::json result = json_of(*restrictions, path);
  result[options.output.empty() ? "key" : "file"] =
      options.output.empty() ? config::user_key_text(key, path) : options.output;
  if (context.json) {
    context.print_json(result);
  } else if (options.output.empty()) {
    print(config::user_key_text(key, path));
  } else if (!context.quiet) {
    print(fmt::format("{}: the key {} ({})\n", options.output, text_of(restrictions->id), about));
  }
  return kExitOk;
}

/// Revokes these keys, and returns all revoked keys of the file system.
Result<std::vector<wire::RevokedKey>> revoke_at_server(Context& context, const wire::RevokeKeysRequest& request) {
  constexpr std::uint32_t kReplyRoom = 128U << 10U;
  SPATE_TRY(assembly::ClientProcess * process, context.file_system());
  auto reply = process->run(
      [&](client::Client& client) { return client.session().ask(request, client.session().limits(), kReplyRoom); });
  if (reply) return std::move(reply->revoked);
  if (reply.code() != Errc::kNotSupported) return std::move(reply).error();
  return Error::told(Errc::kNotSupported, "the meta server has an older version, which knows no keys of users");
}

/// "valid", "ended" or "revoked DATE".
std::string state_of(const IssuedKey& key, const std::vector<wire::RevokedKey>& revoked) {
  const auto found = std::ranges::find(revoked, key.id, &wire::RevokedKey::id);
  if (found != revoked.end()) return "revoked " + format_time(found->since);
  return key.until.ns != 0 && key.until.ns <= SystemClock().wall().ns ? "ended" : "valid";
}

nlohmann::json json_of(const IssuedKey& key, const std::string& state) {
  nlohmann::json row{{"id", text_of(key.id)}, {"state", state}, {"until_ns", key.until.ns}};
  std::istringstream words(key.about);
  for (std::string word; words >> word;) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals);
    const std::string value = word.substr(std::min(equals + 1, word.size()));
    if (name == "uid" || name == "gid") {
      if (const auto number = number_of(value, name == "uid" ? kUserAccount : kGroupAccount)) row[name] = *number;
    } else if (name == "groups") {
      row[name] = nlohmann::json::array();
      std::istringstream groups(value == "none" ? "" : value);
      for (std::string group; std::getline(groups, group, ',');) {
        if (const auto number = number_of(group, kGroupAccount)) row[name].push_back(*number);
      }
    } else if (name == "read_only") {
      row[name] = value == "yes";
    } else if (name == "directory") {
      row[name] = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "path") {
      row[name] = path_from_word(value);
    }
  }
  return row;
}

/// Shows the keys of this machine's record, and those that are revoked but not in it.
int list(Context& context) {
  const auto revoked = revoke_at_server(context, {});
  if (!revoked) return context.fail(revoked.error());
  const auto config = load(context);
  if (!config) return context.fail(config.error());
  nlohmann::json issued = nlohmann::json::array();
  nlohmann::json gone = nlohmann::json::array();
  std::string text;
  std::set<KeyId> recorded;
  for (const IssuedKey& key : recorded_keys(config->fs.client_key_file)) {
    recorded.insert(key.id);
    const std::string state = state_of(key, *revoked);
    issued.push_back(json_of(key, state.substr(0, state.find(' '))));
    text += fmt::format("{}  {}  {}\n", text_of(key.id), state, key.about);
  }
  for (const wire::RevokedKey& key : *revoked) {
    gone.push_back({{"id", text_of(key.id)}, {"revoked_ns", key.since.ns}});
    if (!recorded.contains(key.id))
      text += fmt::format("{}  revoked {}  not in this machine's record\n", text_of(key.id), format_time(key.since));
  }
  if (context.json) {
    context.print_json({{"issued", issued}, {"revoked", gone}});
  } else {
    print(text);
  }
  return kExitOk;
}

int revoke(Context& context, const KeyOptions& options) {
  wire::RevokeKeysRequest request;
  for (const std::string& word : options.ids) {
    const auto id = key_id_from(word);
    if (!id)
      return context.usage("\"" + word + "\" is no id of a key: it has 16 hex digits, as `spate key issue` showed");
    request.keys.push_back(*id);
  }
  if (request.keys.empty()) return context.usage("key revoke needs the id of a key");
  if (const auto config = load(context)) {
    request.ends = recorded_ends(config->fs.client_key_file, request.keys);
    const bool any = std::ranges::any_of(request.ends, [](WallTime end) { return end.ns != 0; });
    if (any) request.keys.emplace_back();  // an empty id tells the server that `ends` follow
  }
  const auto revoked = revoke_at_server(context, request);
  if (!revoked) return context.fail(revoked.error());
  if (context.json) context.print_json({{"revoked", options.ids}});
  return kExitOk;
}

int run_key(Context& context, const KeyOptions& options) {
  if (options.action != "revoke" && !options.ids.empty()) return context.usage("only key revoke takes an ID");
  if (options.action == "revoke") return revoke(context, options);
  if (options.action == "list") return list(context);
  if (options.action == "issue") return issue(context, options);
  return context.usage("key takes issue, revoke or list, not \"" + options.action + "\"");
}

}  // namespace

Command make_key() {
  auto options = std::make_shared<KeyOptions>();
  Command command;
  command.name = "key";
  command.group = "Start and stop";
  command.summary = "make a key for one user, and revoke it";
  command.details =
      "key issue --uid N [--gid N] [--groups N,N...] [--read-only] [--path DIR] [--until DATE] [-o FILE]\n"
      "The holder of the client key may act as any user. This command makes a key for one user and these groups.\n"
      "With --read-only it allows no changes, and it is valid until DATE (UTC, by the servers' clocks). No such key\n"
      "has the rights of root. With --path it is good for this directory and what is below it only; of the\n"
      "directories above, its holder sees the attributes and no other name. The key names the directory itself, which\n"
      "may be renamed and moved.\n"
      "The user names it with --set fs.client_key_file=FILE or SPATE_FS_CLIENT_KEY_FILE=FILE; the file must be the\n"
      "user's own with mode 0600. The command needs the client key, but no server unless --path is given. Each key is\n"
      "recorded beside the client key, in the file of the same name with .issued appended.\n"
      "key revoke ID...\n"
      "The servers refuse these keys for ever, and the sessions that use them end. The command needs the client\n"
      "key. A key whose end is in the record leaves the list of revoked keys a day after that end.\n"
      "key list\n"
      "Shows the keys of that record, with their state, and those that were revoked. The command needs the client\n"
      "key.";
  command.positionals = {{"ACTION", "issue, revoke or list", &options->action, true, {"issue", "revoke", "list"}},
                         {"ID", "revoke: ids of keys, as `spate key issue` printed them", &options->ids}};
  command.options = {
      {"--uid", "the user: a number, or a name that this machine knows", &options->uid},
      {"--gid", "the user's group; without it the groups are those that this machine knows", &options->gid},
      {"--groups", "further groups, numbers or names, separated by commas, or none", &options->groups},
      {"--read-only", "the key allows no changes", &options->read_only},
      {"--path", "the key is good for this directory of the file system, and what is below it, only", &options->path},
      {"--until", "the end of the key: 2027-01-31 or 2027-01-31T12:00, UTC", &options->until},
      {"-o,--output", "the new file for the key; without it the key is printed", &options->output}};
  command.run = [options](Context& context) { return run_key(context, *options); };
  return command;
}

}  // namespace spate::tools
