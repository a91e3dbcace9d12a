// SPDX-License-Identifier: Apache-2.0
// `spate chmod`, `spate chown`, `spate touch`.
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <functional>

#include "tools/commands.h"
#include "tools/modes.h"
#include "tools/name_space.h"
#include "tools/path_arguments.h"

namespace spate::tools {
namespace {

struct AttributeOptions {
  std::string value;  // the mode, or OWNER[:GROUP]
  std::vector<std::string> paths;
  bool recursive = false;
  bool no_dereference = false;
  bool no_create = false;
  bool atime_only = false;
  bool mtime_only = false;
  std::string date;
};

/// The change for one object, given its attributes; the caller fills `where`. Nothing: the object stays as it is.
using MakeChange = std::function<std::optional<wire::SetattrRequest>(const Attributes&)>;

Result<void> change_object(assembly::ClientProcess& process, wire::NamePath where, const Attributes& attributes,
                           const MakeChange& make) {
  auto request = make(attributes);
  if (!request) return {};
  request->where = std::move(where);
  SPATE_TRY(std::ignore, process.run([&](client::Client& c) { return c.setattr(*request); }));
  return {};
}

/// Changes the objects below a directory. Reports failures and goes on with the rest. Symbolic links stay, as with
/// chmod -R.
class BelowChange {
 public:
  BelowChange(Context& context, assembly::ClientProcess& process, const MakeChange& make, int& code)
      : context_(context), process_(process), make_(make), code_(code) {}

  void run(std::string path, Handle directory) {
    path_ = std::move(path);
    enter(directory);
    while (!levels_.empty()) {
      Level& level = levels_.back();
      const Listed* const entry = level.take();
      if (entry == nullptr) {
        levels_.pop_back();
        continue;
      }
      if (entry->attributes.type == FileType::kSymlink) continue;
      wire::NamePath where;
      where.start = level.directory;
      where.path = entry->name;
      path_.resize(level.path_bytes);
      path_ = join_path(path_, entry->name);
      const auto done = change_object(process_, std::move(where), entry->attributes, make_);
      if (!done) code_ = context_.fail(done.error(), "spate:" + path_);
      if (entry->attributes.type == FileType::kDirectory) enter(entry->attributes.handle);
    }
  }

 private:
  struct Level : WalkLevel {
    Handle directory;
  };

  void enter(Handle directory) {
    auto entries = list_directory(process_, directory);
    if (!entries)
      code_ = context_.fail(entries.error(), "spate:" + path_);
    else
      levels_.push_back({{*std::move(entries), path_.size()}, directory});
  }

  Context& context_;
  assembly::ClientProcess& process_;
  const MakeChange& make_;
  int& code_;
  std::string path_;  // of the object that is being changed
  std::vector<Level> levels_;
};

int change_all(Context& context, const AttributeOptions& options, const MakeChange& make) {
  int below = kExitOk;
  const int code = for_each_remote_path(
      context, options.paths,
      [&](assembly::ClientProcess& process, const std::string&, const std::string& path) -> Result<void> {
        const wire::NamePath where = client::path_from_root(path, !options.no_dereference);
        SPATE_TRY(const auto object, process.run([&](client::Client& c) { return c.lookup(where); }));
        const Attributes& attributes = object.attributes;
        auto done = change_object(process, where, attributes, make);
        if (options.recursive && attributes.type == FileType::kDirectory)
          BelowChange(context, process, make, below).run(path, attributes.handle);
        return done;
      });
  return code == kExitOk ? below : code;
}

int run_chmod(Context& context, const AttributeOptions& options) {
  const auto change = ModeChange::parse(options.value, own_umask());
  if (!change) return context.usage(change.error().message());
  return change_all(context, options, [&](const Attributes& now) -> std::optional<wire::SetattrRequest> {
    wire::SetattrRequest request;
    request.mode = change->apply(now.mode & 07777U, now.type == FileType::kDirectory);
    return request;
  });
}

/// A number, or a name that `find` knows; empty: none was given.
Result<std::optional<std::uint32_t>> id_of(const std::string& word, const char* what,
                                           const std::function<std::optional<std::uint32_t>(const char*)>& find) {
  if (word.empty()) return std::optional<std::uint32_t>();
  if (const auto known = find(word.c_str())) return known;
  const bool digits = word.size() <= 10 && word.find_first_not_of("0123456789") == std::string::npos;
  const std::uint64_t number = digits ? std::stoull(word) : UINT64_MAX;
  if (number >= UINT32_MAX)  // (uid_t)-1 stands for "unchanged" in system calls
    return Error::told(Errc::kInvalidArgument, std::string("there is no ") + what + " \"" + word + "\"");
  return std::optional<std::uint32_t>(static_cast<std::uint32_t>(number));
}

std::optional<std::uint32_t> uid_named(const char* name) {
  const passwd* const entry = ::getpwnam(name);
  return entry == nullptr ? std::nullopt : std::optional<std::uint32_t>(entry->pw_uid);
}

std::optional<std::uint32_t> gid_named(const char* name) {
  const struct ::group* const entry = ::getgrnam(name);
  return entry == nullptr ? std::nullopt : std::optional<std::uint32_t>(entry->gr_gid);
}

int run_chown(Context& context, const AttributeOptions& options) {
  const std::size_t colon = options.value.find(':');
  const auto uid = id_of(options.value.substr(0, colon), "user", uid_named);
  const auto gid = id_of(colon == std::string::npos ? "" : options.value.substr(colon + 1), "group", gid_named);
  if (!uid) return context.usage(uid.error().message());
  if (!gid) return context.usage(gid.error().message());
  if (!*uid && !*gid) return context.usage("chown takes OWNER, OWNER:GROUP or :GROUP");
  return change_all(context, options, [&](const Attributes&) -> std::optional<wire::SetattrRequest> {
    wire::SetattrRequest request;
    request.uid = *uid;
    request.gid = *gid;
    return request;
  });
}

/// "2026-11-23", "2026-11-23 14:05", "2026-11-23 14:05:30", local time; "@SECONDS" since 1970.
Result<WallTime> parse_date(const std::string& text) {
  constexpr std::int64_t kNsPerSecond = 1'000'000'000;
  const Error wrong(Errc::kInvalidArgument, "-d takes \"YYYY-MM-DD[ HH:MM[:SS]]\" or @SECONDS, not \"" + text + "\"");
  if (text.starts_with('@') && text.size() > 1 && text.size() < 12 &&
      text.find_first_not_of("0123456789", 1) == std::string::npos)
    return WallTime{std::stoll(text.substr(1)) * kNsPerSecond};
  for (const char* format : {"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"}) {
    std::tm parts{};
    parts.tm_isdst = -1;
    const char* const end = ::strptime(text.c_str(), format, &parts);
    if (end == nullptr || *end != '\0') continue;
    return WallTime{static_cast<std::int64_t>(std::mktime(&parts)) * kNsPerSecond};
  }
  return wrong;
}

job::Task<Result<void>> create_empty(client::Client& client, wire::NamePath where, std::uint32_t mode) {
  client::NewObject object;
  object.attributes.mode = mode;
  SPATE_CO_TRY(auto file, co_await client.create(std::move(where), wire::kOpenWrite, object));
  SPATE_CO_TRY(std::ignore, co_await file->close());
  co_return Result<void>();
}

Result<void> touch_one(assembly::ClientProcess& process, const std::string& path, const AttributeOptions& options,
                       wire::SetattrRequest times) {
  times.where = client::path_from_root(path, !options.no_dereference);
  auto set = process.run([&](client::Client& c) { return c.setattr(times); });
  if (set) return {};
  if (set.code() != Errc::kNotFound) return std::move(set).error();
  if (options.no_create) return {};
  SPATE_TRY(std::ignore,
            process.run([&](client::Client& c) { return create_empty(c, times.where, 0666U & ~own_umask()); }));
  if (options.date.empty()) return {};
  SPATE_TRY(std::ignore, process.run([&](client::Client& c) { return c.setattr(times); }));
  return {};
}

int run_touch(Context& context, const AttributeOptions& options) {
  wire::SetattrRequest times;
  const bool atime = !options.mtime_only || options.atime_only;
  const bool mtime = !options.atime_only || options.mtime_only;
  if (options.date.empty()) {
    times.atime_now = atime;
    times.mtime_now = mtime;
  } else {
    const auto date = parse_date(options.date);
    if (!date) return context.usage(date.error().message());
    if (atime) times.atime = *date;
    if (mtime) times.mtime = *date;
  }
  return for_each_remote_path(context, options.paths,
                              [&](assembly::ClientProcess& process, const std::string&, const std::string& path) {
                                return touch_one(process, path, options, times);
                              });
}

Command make(std::string name, std::string summary, const std::shared_ptr<AttributeOptions>& options,
             int (*run)(Context&, const AttributeOptions&)) {
  Command command;
  command.name = std::move(name);
  command.group = "Change";
  command.summary = std::move(summary);
  command.run = [options, run](Context& context) { return run(context, *options); };
  return command;
}

}  // namespace

std::uint32_t own_umask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

Command make_chmod() {
  auto options = std::make_shared<AttributeOptions>();
  Command command = make("chmod", "change permission bits", options, run_chmod);
  command.positionals = {{"MODE", "0755, or u+x,go-w as chmod(1) takes it", &options->value, true},
                         {"PATH", "spate:/...", &options->paths, true}};
  command.options = {{"-R,--recursive", "also everything below, except symbolic links", &options->recursive}};
  return command;
}

Command make_chown() {
  auto options = std::make_shared<AttributeOptions>();
  Command command = make("chown", "change owner and group", options, run_chown);
  command.positionals = {{"OWNER", "OWNER, OWNER:GROUP or :GROUP, by name or number", &options->value, true},
                         {"PATH", "spate:/...", &options->paths, true}};
  command.options = {{"-R,--recursive", "also everything below, except symbolic links", &options->recursive},
                     {"-n,--no-dereference", "change a symbolic link itself", &options->no_dereference}};
  return command;
}

Command make_touch() {
  auto options = std::make_shared<AttributeOptions>();
  Command command = make("touch", "make empty files, or set the times of existing ones to now", options, run_touch);
  command.positionals = {{"PATH", "spate:/...", &options->paths, true}};
  command.options = {{"-a", "set only the time of the last read", &options->atime_only},
                     {"-m", "set only the time of the last change", &options->mtime_only},
                     {"-c,--no-create", "make no files", &options->no_create},
                     {"-d,--date", "\"YYYY-MM-DD[ HH:MM[:SS]]\" or @SECONDS instead of now", &options->date},
                     {"-n,--no-dereference", "change a symbolic link itself", &options->no_dereference}};
  return command;
}

}  // namespace spate::tools
