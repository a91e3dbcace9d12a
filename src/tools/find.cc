// SPDX-License-Identifier: Apache-2.0
// `spate find`: prints names below directories that pass all tests; the words are those of find(1).
#include <fnmatch.h>
#include <grp.h>
#include <pwd.h>

#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "tools/commands.h"
#include "tools/name_space.h"
#include "tools/path_arguments.h"

namespace spate::tools {
namespace {

/// The properties of an object that the tests examine.
struct Found {
  std::string path;  // from the root
  std::string name;  // its last component
  Attributes attributes;
  Handle directory;  // its handle, if it is a directory
};

using Test = std::function<bool(const Found&)>;

struct Search {
  std::vector<std::string> paths;
  std::vector<Test> tests;
  std::uint64_t min_depth = 0;
  std::uint64_t max_depth = UINT64_MAX;
  bool empty = false;      // only empty files and directories
  bool not_empty = false;  // ! -empty
  bool null_ended = false;
  bool json = false;
};

Result<std::uint64_t> whole_number(const std::string& text, const std::string& test) {
  const bool digits = !text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) return Error::told(Errc::kInvalidArgument, test + " takes a number, not \"" + text + "\"");
  return std::stoull(text);
}

/// "+5": more, "-5": less, "5": exactly.
struct Bound {
  char sign = '=';
  std::uint64_t number = 0;
  bool holds(std::uint64_t value) const {
    return sign == '+' ? value > number : sign == '-' ? value < number : value == number;
  }
};

Result<Bound> bound_of(std::string text, const std::string& test) {
  Bound bound;
  if (text.starts_with('+') || text.starts_with('-')) {
    bound.sign = text.front();
    text.erase(0, 1);
  }
  SPATE_TRY(bound.number, whole_number(text, test));
  return bound;
}

Result<Test> name_test(const std::string& word, const std::string& value) {
  const bool whole = word == "-path";
  const int flags = word == "-iname" ? FNM_CASEFOLD : 0;
  return Test([=](const Found& found) {
    return ::fnmatch(value.c_str(), (whole ? "spate:" + found.path : found.name).c_str(), flags) == 0;
  });
}

Result<Test> type_test(const std::string& value) {
  const std::string letters = "fdlpscb";
  const std::array<FileType, 7> types = {FileType::kRegular,    FileType::kDirectory, FileType::kSymlink,
                                         FileType::kFifo,       FileType::kSocket,    FileType::kCharDevice,
                                         FileType::kBlockDevice};
  const std::size_t at = value.size() == 1 ? letters.find(value) : std::string::npos;
  if (at == std::string::npos)
    return Error::told(Errc::kInvalidArgument, "-type takes one of f, d, l, p, s, c and b, not \"" + value + "\"");
  return Test([type = types[at]](const Found& found) { return found.attributes.type == type; });
}

/// In units, rounded up: as with find(1), "-size -1M" matches only empty files.
Result<Test> size_test(std::string value) {
  std::uint64_t unit = 512;
  const std::string letters = "cbkMG";
  const std::array<std::uint64_t, 5> units = {1, 512, 1U << 10U, 1U << 20U, 1U << 30U};
  if (!value.empty() && letters.find(value.back()) != std::string::npos) {
    unit = units[letters.find(value.back())];
    value.pop_back();
  }
  SPATE_TRY(const Bound bound, bound_of(value, "-size"));
  return Test([=](const Found& found) { return bound.holds((found.attributes.size + unit - 1) / unit); });
}

/// Age in whole units of `unit`.
Result<Test> age_test(const std::string& word, const std::string& value, std::chrono::seconds unit) {
  SPATE_TRY(const Bound bound, bound_of(value, word));
  SystemClock clock;
  const std::int64_t now = clock.wall().ns;
  return Test([=](const Found& found) {
    const std::int64_t age = std::max<std::int64_t>(0, now - found.attributes.mtime.ns);
    return bound.holds(static_cast<std::uint64_t>(age / std::chrono::nanoseconds(unit).count()));
  });
}

Result<Test> owner_test(const std::string& word, const std::string& value) {
  const bool user = word == "-user";
  const passwd* const known_user = user ? ::getpwnam(value.c_str()) : nullptr;
  const struct ::group* const known_group = user ? nullptr : ::getgrnam(value.c_str());
  std::uint64_t id = known_user != nullptr ? known_user->pw_uid : known_group != nullptr ? known_group->gr_gid : 0U;
  if (known_user == nullptr && known_group == nullptr) {
    SPATE_TRY(id, whole_number(value, word));
  }
  return Test([=](const Found& found) { return (user ? found.attributes.uid : found.attributes.gid) == id; });
}

Result<Test> newer_test(assembly::ClientProcess& process, const std::string& value) {
  if (!is_remote(value))
    return Error::told(Errc::kInvalidArgument, "-newer takes a path in the file system (spate:/...)");
  auto object = process.run([&](client::Client& c) { return c.stat(client::path_from_root(remote_path(value))); });
  if (!object) return std::move(object).error().within(value);
  return Test([mtime = object->attributes.mtime.ns](const Found& found) { return found.attributes.mtime.ns > mtime; });
}

Result<Test> test_of(assembly::ClientProcess& process, const std::string& word, const std::string& value) {
  if (word == "-name" || word == "-iname" || word == "-path") return name_test(word, value);
  if (word == "-type") return type_test(value);
  if (word == "-size") return size_test(value);
  if (word == "-mtime") return age_test(word, value, std::chrono::hours(24));
  if (word == "-mmin") return age_test(word, value, std::chrono::minutes(1));
  if (word == "-user" || word == "-group") return owner_test(word, value);
  if (word == "-newer") return newer_test(process, value);
  return Error::told(Errc::kInvalidArgument,
                     "there is no test \"" + word + "\"; `spate help find` lists them (pipe names to xargs for more)");
}

/// Parses the words behind the paths.
Result<void> parse_tests(assembly::ClientProcess& process, const std::vector<std::string>& words, std::size_t at,
                         Search& search) {
  bool inverted = false;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    const bool last = at + 1 == words.size();
    if (word == "!" || word == "-not") {
      inverted = !inverted;
      continue;
    }
    if (word == "-print" || word == "-print0" || word == "--json") {
      search.null_ended = search.null_ended || word == "-print0";
      search.json = search.json || word == "--json";
    } else if (word == "-empty") {
      (inverted ? search.not_empty : search.empty) = true;
    } else if (last) {
      return Error::told(Errc::kInvalidArgument, word + ": no such test, or its value is missing");
    } else if (word == "-maxdepth" || word == "-mindepth") {
      SPATE_TRY((word == "-maxdepth" ? search.max_depth : search.min_depth), whole_number(words[++at], word));
    } else {
      SPATE_TRY(Test test, test_of(process, word, words[++at]));
      if (inverted) test = [inner = std::move(test)](const Found& found) { return !inner(found); };
      search.tests.push_back(std::move(test));
    }
    inverted = false;
  }
  return {};
}

/// Prints the names that pass, depth first, each directory before its entries.
class Finder {
 public:
  Finder(Context& context, assembly::ClientProcess& process, const Search& search)
      : context_(context), process_(process), search_(search) {}

  void look(Found found) {
    std::vector<WalkLevel> levels;
    visit(found, levels);
    while (!levels.empty()) {
      WalkLevel& level = levels.back();
      const Listed* const entry = level.take();
      if (entry == nullptr) {
        levels.pop_back();
        continue;
      }
      found.path.resize(level.path_bytes);
      found.path = join_path(found.path, entry->name);
      found.name = entry->name;
      found.attributes = entry->attributes;
      found.directory = entry->attributes.handle;
      visit(found, levels);
    }
  }
  int end() {
    if (search_.json) context_.print_json(rows_);
    return code_;
  }
  void failed(const Error& error, const std::string& path) { code_ = context_.fail(error, path); }

 private:
  /// Looks at one object; a directory that the search goes into is put on the stack.
  void visit(const Found& found, std::vector<WalkLevel>& levels) {
    const std::size_t depth = levels.size();
    const bool directory = found.attributes.type == FileType::kDirectory;
    std::vector<Listed> below;
    if (directory && (depth < search_.max_depth || search_.empty || search_.not_empty)) {
      auto listed = list_directory(process_, found.directory);
      if (!listed) {
        code_ = context_.fail(listed.error(), "spate:" + found.path);
      } else {
        below = *std::move(listed);
      }
    }
    const bool empty =
        directory ? below.empty() : found.attributes.type == FileType::kRegular && found.attributes.size == 0;
    if (depth >= search_.min_depth && (!search_.empty || empty) && (!search_.not_empty || !empty)) offer(found);
    if (depth < search_.max_depth && !below.empty()) levels.push_back({std::move(below), found.path.size()});
  }

  void offer(const Found& found) {
    for (const Test& test : search_.tests) {
      if (!test(found)) return;
    }
    if (search_.json) {
      rows_.push_back(to_json(found.attributes));
      rows_.back()["path"] = "spate:" + printable(found.path);
      return;
    }
    // Another program needs the name as it is.
    print(search_.null_ended ? "spate:" + found.path + '\0' : "spate:" + printable(found.path) + "\n");
  }

  Context& context_;
  assembly::ClientProcess& process_;
  const Search& search_;
  nlohmann::json rows_ = nlohmann::json::array();
  int code_ = kExitOk;
};

int run_find(Context& context, const std::vector<std::string>& words) {
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  Search search;
  std::size_t paths = 0;
  while (paths < words.size() && !words[paths].starts_with('-') && words[paths] != "!") ++paths;
  search.paths.assign(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(paths));
  if (search.paths.empty()) search.paths.emplace_back("spate:/");
  search.json = context.json;
  auto parsed = parse_tests(**process, words, paths, search);
  if (!parsed) return context.usage(parsed.error().message());
  context.json = search.json;
  int code = kExitOk;
  if (!take_remote_paths(context, **process, search.paths, code)) return code;
  Finder finder(context, **process, search);
  for (const std::string& named : search.paths) {
    const std::string path = remote_path(named);
    auto object = (*process)->run([&](client::Client& c) { return c.stat(client::path_from_root(path, false)); });
    if (!object) {
      finder.failed(object.error(), named);
      continue;
    }
    finder.look({path, split_path(path).second, object->attributes, object->attributes.handle});
  }
  return finder.end();
}

}  // namespace

Command make_find() {
  auto words = std::make_shared<std::vector<std::string>>();
  Command command;
  command.name = "find";
  command.group = "Look";
  command.summary = "print the paths below directories that pass all tests";
  command.details =
      "spate find spate:/results -name '*.h5' -size +1G -mtime -7\n"
      "Tests: -name, -iname, -path PATTERN; -type f|d|l|p|s|c|b; -size [+-]N[c|k|M|G]; -mtime, -mmin [+-]N; -empty;\n"
      "-newer PATH; -user, -group NAME; ! before a test inverts it. Also -maxdepth N, -mindepth N, -print0.";
  command.positionals = {{"PATH", "spate:/..., then the tests", words.get()}};
  command.starts_program = true;
  command.run = [words](Context& context) { return run_find(context, *words); };
  return command;
}

}  // namespace spate::tools
