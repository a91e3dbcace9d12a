// SPDX-License-Identifier: Apache-2.0
// The command line, parsed by CLI11: the only file that includes it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>

#include "tools/command.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

/// The parser's own conversion turns "-1" into 2^64 - 1. Returns the mistake; empty: none.
std::string refuse_unless_number(const std::string& word) {
  const bool digits = !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::string() : "\"" + word + "\" is not a whole number of 0 or more";
}

void add(CLI::App& app, const Argument& argument) {
  CLI::Option* option = nullptr;
  std::visit(
      [&](auto* target) {
        using Target = std::remove_pointer_t<decltype(target)>;
        if constexpr (std::is_same_v<Target, bool>) {
          option = app.add_flag(argument.name, *target, argument.help);
        } else {
          option = app.add_option(argument.name, *target, argument.help);
        }
        if constexpr (std::is_same_v<Target, std::uint64_t> || std::is_same_v<Target, std::optional<std::uint64_t>>) {
          option->check(refuse_unless_number);
        }
      },
      argument.target);
  if (argument.required) option->required();
  // An option that may be repeated takes one value each time: the words after it are not further values.
  if (argument.name.starts_with('-') && option->get_expected_max() > 1) option->allow_extra_args(false);
}

void add_globals(CLI::App& app, Context& context) {
  for (const Argument& argument : global_options(context)) add(app, argument);
}

/// `only`: leave all other commands out; empty: add all.
void add_commands(CLI::App& app, const std::vector<Command>& commands, const std::string& only, Context& context,
                  const Command*& chosen) {
  for (const Command& command : commands) {
    if (!only.empty() && command.name != only) continue;
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->group(command.group);
    if (!command.details.empty()) sub->footer(command.details);
    // If -h is an option of the command ("sizes with units"), only --help shows help.
    const bool own_h = std::any_of(command.options.begin(), command.options.end(),
                                   [](const Argument& option) { return option.name.starts_with("-h,"); });
    if (own_h) sub->set_help_flag("--help", "print this help message and exit");
    for (const Argument& argument : command.positionals) add(*sub, argument);
    for (const Argument& argument : command.options) add(*sub, argument);
    add_globals(*sub, context);  // they are accepted after the subcommand's name, too
    sub->callback([&chosen, &command] { chosen = &command; });
  }
}

/// The parser takes "[a,b]" for a list of two values. This character before it prevents that.
constexpr char kNoList = '\1';

std::string as_one_word(std::string word) {
  const bool like_a_list = word.starts_with('[') && word.ends_with(']');
  return like_a_list || word.starts_with(kNoList) ? kNoList + word : word;
}

void restore(std::string& word) {
  if (word.starts_with(kNoList)) word.erase(0, 1);
}

/// Reverses as_one_word() in the parsed values.
void restore_words(const Command& command, Context& context) {
  restore(context.fs);
  std::for_each(context.overrides.begin(), context.overrides.end(), restore);
  for (const std::vector<Argument>* arguments : {&command.positionals, &command.options}) {
    for (const Argument& argument : *arguments) {
      if (auto* const* one = std::get_if<std::string*>(&argument.target)) restore(**one);
      if (auto* const* many = std::get_if<std::vector<std::string>*>(&argument.target))
        std::for_each((*many)->begin(), (*many)->end(), restore);
    }
  }
}

const Command* command_named(const std::vector<Command>& commands, const std::string& word) {
  const auto at = std::find_if(commands.begin(), commands.end(), [&](const Command& c) { return c.name == word; });
  return at == commands.end() ? nullptr : &*at;
}

bool names_a_command(const std::vector<Command>& commands, const std::string& word) {
  return command_named(commands, word) != nullptr;
}

/// Whether the option's value is the next word ("--at /data").
bool takes_next_word(const Command& command, const std::string& word) {
  if (global_takes_next_word(word)) return true;
  return std::any_of(command.options.begin(), command.options.end(), [&](const Argument& option) {
    const std::string names = "," + option.name + ",";
    return !std::holds_alternative<bool*>(option.target) && names.find("," + word + ",") != std::string::npos;
  });
}

/// The words of a command line, and the place of the one that should be a command's name: options of all commands may
/// stand before it, as in `spate --fs /data ls`.
struct CommandLine {
  explicit CommandLine(int argc, char** argv) {
    std::transform(argv + 1, argv + argc, std::back_inserter(words), as_one_word);
    while (at < words.size() && words[at].starts_with('-')) at += global_takes_next_word(words[at]) ? 2 : 1;
    at = std::min(at, words.size());
  }
  /// The word there; empty: there is none.
  std::string name() const { return at < words.size() ? words[at] : std::string(); }

  std::vector<std::string> words;
  std::size_t at = 0;
};

/// Turns `spate run ls -l` into `spate run -- ls -l`.
void separate_program(const Command& command, CommandLine& line) {
  std::vector<std::string>& words = line.words;
  std::size_t at = line.at + 1;
  while (at < words.size() && words[at].starts_with('-') && words[at] != "--") {
    at += takes_next_word(command, words[at]) ? 2 : 1;
  }
  if (at < words.size() && words[at] != "--") words.insert(words.begin() + static_cast<std::ptrdiff_t>(at), "--");
}

/// Turns `spate help NAME` into `spate NAME --help`.
void rewrite(const std::vector<Command>& commands, CommandLine& line) {
  if (line.name() == "help") {
    line.words.erase(line.words.begin() + static_cast<std::ptrdiff_t>(line.at));
    line.words.emplace_back("--help");
  }
  const Command* const command = command_named(commands, line.name());
  if (command != nullptr && command->starts_program) separate_program(*command, line);
}

/// The parser's message, as part of a line of ours: without the full stop or new line that some of its messages have at
/// the end.
std::string own_words(const CLI::ParseError& error) {
  std::string text = error.what();
  std::erase(text, kNoList);
  while (text.ends_with('.') || text.ends_with('\n')) text.pop_back();
  return text;
}

/// `word` is no command: prints an error that proposes the nearest one.
int refuse_command(const std::vector<Command>& commands, const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  const std::string meant = nearest_word(word, names);
  const std::string hint = meant.empty() ? "`spate help` lists them" : "did you mean `spate " + meant + "`?";
  std::fprintf(stderr, "spate: there is no command \"%s\"; %s\n", printable(word).c_str(), hint.c_str());
  return kExitUsage;
}

/// Reports a mistake. For a mistyped command, the parser's own message would be about a missing command.
int refuse(const CLI::App& app, const CLI::ParseError& error, const std::vector<Command>& commands,
           const CommandLine& line) {
  if (line.words.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return kExitUsage;
  }
  std::string name = line.name();
  restore(name);
  if (!name.empty() && !name.starts_with('-') && !names_a_command(commands, name))
    return refuse_command(commands, name);
  if (error.get_exit_code() == 0) return app.exit(error);  // help or version was printed
  const auto parsed = app.get_subcommands();
  const std::string command = parsed.empty() ? "" : parsed.front()->get_name();
  const std::string help = command.empty() ? "spate help" : "spate help " + command;
  std::fprintf(stderr, "spate: %s%s; `%s` tells more\n", command.empty() ? "" : (command + ": ").c_str(),
               printable_lines(own_words(error)).c_str(), help.c_str());
  return kExitUsage;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  Context context;
  const std::vector<Command> commands = all_commands();
  const Command* chosen = nullptr;
  try {
    CLI::App app("Spate: a striped, parallel file system in user space. Paths inside it are written spate:/...",
                 "spate");
    app.require_subcommand(1);
    app.set_version_flag("--version", "spate " SPATE_VERSION);
    app.get_formatter()->column_width(28);
    app.footer(std::string(kExitCodes) + "\n`spate help COMMAND` explains a command. " + kWhichFileSystem);
    add_globals(app, context);
    CommandLine line(argc, argv);
    rewrite(commands, line);
    // Preparing the parser for all commands takes longer than running many a command.
    const std::string name = line.name();
    add_commands(app, commands, names_a_command(commands, name) ? name : std::string(), context, chosen);
    try {
      app.parse(std::vector<std::string>(line.words.rbegin(), line.words.rend()));
    } catch (const CLI::ParseError& error) {
      return refuse(app, error, commands, line);
    }
    if (chosen == nullptr) return kExitUsage;
    restore_words(*chosen, context);
    const int code = chosen->run(context);
    context.print_failures();
    return code;
  } catch (const std::exception& error) {
    return context.fail(error.what());
  }
}

}  // namespace spate::tools
