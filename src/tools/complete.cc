// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <map>
#include <sstream>

#include "base/printable.h"
#include "config/keys.h"
#include "tools/commands.h"
#include "tools/known.h"
#include "tools/name_space.h"

namespace spate::tools {
namespace {

struct CompleteOptions {
  bool described = false;
  std::vector<std::string> words;
};

/// Asks the shell to add names of local files.
constexpr const char* kLocalFiles = "@files";

/// "-c" and "--check" of "-c,--check".
std::vector<std::string> spellings(const std::string& name) {
  std::vector<std::string> all;
  std::istringstream in(name);
  for (std::string one; std::getline(in, one, ',');) all.push_back(one);
  return all;
}

bool takes_paths(const Command& command) {
  return std::any_of(command.positionals.begin(), command.positionals.end(),
                     [](const Argument& a) { return a.help.find("spate:") != std::string::npos || a.name == "DIR"; });
}

bool is_harmless(std::string text) {
  std::ranges::replace(text, '\\', '/');
  return printable(text) == text;
}

/// "meta.sync=", for --set.
std::vector<std::string> settings() {
  std::vector<std::string> all;
  for (const config::Key& key : config::keys()) {
    if (!key.environment_name().empty()) all.push_back(key.full_name() + "=");
  }
  return all;
}

/// The positional argument that the last of these words belongs to.
const Argument* positional_at(const Command& command, const std::vector<std::string>& words) {
  if (command.positionals.empty()) return nullptr;
  const auto before = static_cast<std::size_t>(std::count_if(
      words.begin() + 1, words.end() - 1, [](const std::string& word) { return !word.starts_with('-'); }));
  const Argument& last = command.positionals.back();
  if (before < command.positionals.size()) return &command.positionals[before];
  return std::holds_alternative<std::vector<std::string>*>(last.target) ? &last : nullptr;
}

class Completion {
 public:
  explicit Completion(std::string word) : word_(std::move(word)) {}
  /// Adds a candidate. Other users' names may contain anything: a name with terminal control sequences is left out.
  void offer(const std::string& candidate, const std::string& description = {}) {
    if (candidate.starts_with(word_) && is_harmless(candidate)) found_.emplace(candidate, description);
  }
  void offer(const Argument& argument) {
    const std::size_t comma = argument.is_list ? word_.rfind(',') : std::string::npos;
    const std::string before = comma == std::string::npos ? std::string() : word_.substr(0, comma + 1);
    for (const std::string& choice : argument.choices) offer(before + choice);
    if (!argument.offers) return;
    for (const std::string& one : argument.offers()) offer(one);
    offer_files();
  }
  void offer_files() { files_ = true; }
  const std::string& word() const { return word_; }
  /// One line for each candidate. `described`: with a tabulator and its description.
  std::string text(bool described) const {
    std::string text;
    for (const auto& [one, description] : found_)
      text += described && !description.empty() ? one + "\t" + description + "\n" : one + "\n";
    return files_ ? text + kLocalFiles + "\n" : text;
  }

 private:
  std::string word_;
  std::map<std::string, std::string> found_;
  bool files_ = false;
};

/// Adds the entries of the directory that the word is in. Reports no error if it cannot be listed.
void offer_remote(Context& context, Completion& completion) {
  context.overrides.emplace_back("client.deadline=1 s");  // a shell waits for the answer
  const std::string& word = completion.word();
  const std::size_t slash = word.rfind('/');
  const std::string directory = slash == std::string::npos ? "spate:/" : word.substr(0, slash + 1);
  context.names_dead_servers = false;
  auto process = context.file_system();
  if (!process) return;
  auto object =
      (*process)->run([&](client::Client& c) { return c.lookup(client::path_from_root(remote_path(directory))); });
  if (!object || object->attributes.type != FileType::kDirectory) return;
  const auto entries = list_directory(**process, object->attributes.handle);
  if (!entries) return;
  for (const Listed& entry : *entries) {
    completion.offer(directory + entry.name + (entry.attributes.type == FileType::kDirectory ? "/" : ""));
  }
}

/// Adds the values of the option in the word before. True: nothing else is to be offered.
bool offer_values(const Command& command, const std::string& before, Completion& completion) {
  if (before == "--set") {
    for (const std::string& one : settings()) completion.offer(one);
    return true;
  }
  if (before == "--fs") {
    for (const std::string& file : known_file_systems()) completion.offer(file);
    completion.offer_files();
    return true;
  }
  for (const Argument& option : command.options) {
    const auto names = spellings(option.name);
    if (std::holds_alternative<bool*>(option.target) || std::find(names.begin(), names.end(), before) == names.end())
      continue;
    completion.offer(option);
    if (option.choices.empty()) completion.offer_files();
    return true;
  }
  return false;
}

void offer_arguments(Context& context, const Command& command, const std::vector<std::string>& words,
                     Completion& completion) {
  if (offer_values(command, words[words.size() - 2], completion)) return;
  if (completion.word().starts_with('-')) {
    for (const Argument& option : command.options) completion.offer(spellings(option.name).back(), option.help);
    for (const Argument& option : global_options(context)) completion.offer(spellings(option.name).back(), option.help);
    completion.offer("--help", "what the command does and takes");
    return;
  }
  if (const Argument* const argument = positional_at(command, words)) completion.offer(*argument);
  if (!takes_paths(command)) return;
  if (is_remote(completion.word())) {
    offer_remote(context, completion);
  } else {
    completion.offer("spate:/");
    completion.offer_files();
  }
}

/// Uses the file system that is named among the words, and takes off the options before the command's name. The last
/// word is begun, so it stays.
void use_globals(Context& context, std::vector<std::string>& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i].starts_with("--fs=")) context.fs = words[i].substr(5);
    if (words[i] == "--fs" && i + 2 < words.size()) context.fs = words[i + 1];
  }
  std::size_t at = 0;
  while (at + 1 < words.size() && words[at].starts_with('-')) at += global_takes_next_word(words[at]) ? 2 : 1;
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(std::min(at, words.size() - 1)));
}

void offer_commands(Context& context, const std::vector<Command>& commands, Completion& completion) {
  for (const Command& command : commands) {
    if (!command.group.empty()) completion.offer(command.name, command.summary);
  }
  for (const char* option : {"--help", "--version"}) completion.offer(option);
  for (const Argument& option : global_options(context)) completion.offer(spellings(option.name).back(), option.help);
}

int run_complete(Context& context, CompleteOptions& options) {
  std::vector<std::string>& words = options.words;
  if (words.empty()) return kExitOk;
  const std::vector<Command> commands = all_commands();
  Completion completion(words.back());
  const bool is_value = words.size() > 1 && offer_values(Command(), words[words.size() - 2], completion);
  use_globals(context, words);
  const auto chosen =
      std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return c.name == words.front(); });
  if (!is_value && words.size() == 1) {
    offer_commands(context, commands, completion);
  } else if (!is_value && chosen != commands.end() && chosen->name == "help") {
    for (const Command& command : commands) completion.offer(command.name, command.summary);
  } else if (!is_value && chosen != commands.end()) {
    offer_arguments(context, *chosen, words, completion);
  }
  print(completion.text(options.described));
  return kExitOk;
}

}  // namespace

Command make_complete() {
  auto options = std::make_shared<CompleteOptions>();
  Command command;
  command.name = "complete";
  command.summary = "print what may stand at the end of a command line (for shells)";
  command.positionals = {{"WORD", "the words after `spate`, the last one begun; after --", &options->words}};
  command.options = {{"--described", "with what each means, behind a tabulator", &options->described}};
  command.run = [options](Context& context) { return run_complete(context, *options); };
  return command;
}

Command make_help() {
  auto options = std::make_shared<CompleteOptions>();
  Command command;
  command.name = "help";
  command.group = "Help";
  command.summary = "show this page, or the help of a command";
  command.positionals = {{"COMMAND", "a command's name", &options->words}};
  command.run = [options](Context& context) { return context.usage("help takes the name of one command"); };
  return command;
}

}  // namespace spate::tools
