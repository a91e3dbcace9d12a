// SPDX-License-Identifier: Apache-2.0
// The pages whose source is in the program: its commands and the keys of spate.toml.
#include <algorithm>

#include "config/describe.h"
#include "config/keys.h"
#include "tools/command.h"
#include "tools/manual.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

bool takes_many(const Argument& argument) { return std::holds_alternative<std::vector<std::string>*>(argument.target); }

/// So many choices are listed beside the option; more are listed below it.
constexpr std::size_t kFewChoices = 8;

std::string choices_of(const Argument& argument, const std::string& between) {
  std::string all;
  for (const std::string& choice : argument.choices) all += (all.empty() ? "" : between) + choice;
  return all;
}

/// The text after an option: nothing, the words that it accepts, or their kind.
std::string value_of(const Argument& argument) {
  if (std::holds_alternative<bool*>(argument.target)) return "";
  if (argument.name == "--set") return " KEY=VALUE";
  if (!argument.choices.empty() && argument.choices.size() <= kFewChoices) return " " + choices_of(argument, "|");
  const bool number = std::holds_alternative<std::uint64_t*>(argument.target) ||
                      std::holds_alternative<std::optional<std::uint64_t>*>(argument.target);
  return number ? " N" : " TEXT";
}

/// "-l, --long"
std::string spelt(const Argument& argument) {
  std::string all;
  for (const char c : argument.name) all += c == ',' ? std::string(", ") : std::string(1, c);
  return all + value_of(argument);
}

std::string synopsis_of(const Command& command) {
  std::string text = "spate " + command.name + " [OPTION...]";
  for (const Argument& argument : command.positionals) {
    const std::string word = argument.name + (takes_many(argument) ? "..." : "");
    text += argument.required ? " " + word : " [" + word + "]";
  }
  return text;
}

void write_arguments(ManualPage& page, std::string_view title, const std::vector<Argument>& arguments) {
  if (arguments.empty()) return;
  page.section(title);
  for (const Argument& argument : arguments) {
    const bool many = argument.choices.size() > kFewChoices;
    page.item(spelt(argument), argument.help, many ? "Known are: " + choices_of(argument, ", ") : "");
  }
}

void write_positionals(ManualPage& page, const std::vector<Argument>& arguments) {
  if (arguments.empty()) return;
  page.section("ARGUMENTS");
  for (const Argument& argument : arguments) page.item(argument.name, argument.help);
}

/// A line with two columns, "job up    make it", is an item.
void write_details(ManualPage& page, const std::string& details) {
  std::string plain;
  const auto end_paragraph = [&] {
    if (!plain.empty()) page.paragraph(plain);
    plain.clear();
  };
  for (const std::string& line : lines_of(details)) {
    const std::size_t gap = line.starts_with(' ') ? std::string::npos : line.find("  ");
    const std::size_t text = line.find_first_not_of(' ', gap);
    if (gap == std::string::npos || text == std::string::npos) {
      plain += plain.empty() ? line : "\n" + line;
      continue;
    }
    end_paragraph();
    page.item(line.substr(0, gap), line.substr(text));
  }
  end_paragraph();
}

ManualPage page_of(const Command& command, const std::vector<Argument>& globals, const ManualEdition& edition) {
  ManualPage page({"spate-" + command.name, '1', command.summary, edition.date, edition.version});
  page.section("SYNOPSIS");
  page.paragraph(synopsis_of(command));
  if (!command.details.empty()) {
    page.section("DESCRIPTION");
    write_details(page, command.details);
  }
  write_positionals(page, command.positionals);
  write_arguments(page, "OPTIONS", command.options);
  write_arguments(page, "COMMON OPTIONS", globals);
  page.section("EXIT STATUS");
  page.paragraph(kExitCodes);
  page.see_also({"spate(1)", "spate.toml(5)", "spate(7)"});
  return page;
}

/// Writes the groups in the order of their first command.
void write_commands(ManualPage& page, const std::vector<Command>& commands) {
  std::vector<std::string> groups;
  for (const Command& command : commands) {
    if (!command.group.empty() && std::ranges::find(groups, command.group) == groups.end())
      groups.push_back(command.group);
  }
  for (const std::string& group : groups) {
    page.subsection(group);
    for (const Command& command : commands) {
      if (command.group == group) page.item("spate-" + command.name + "(1)", command.summary);
    }
  }
}

ManualPage main_page(const std::vector<Command>& commands, const std::vector<Argument>& globals,
                     const ManualEdition& edition) {
  ManualPage page({"spate", '1', "start, look at and use a Spate file system", edition.date, edition.version});
  page.section("SYNOPSIS");
  page.paragraph("spate COMMAND [OPTION...] [ARGUMENT...]");
  page.section("DESCRIPTION");
  page.paragraph(std::string("Paths inside the file system are written spate:/...; all others are local.\n") +
                 kWhichFileSystem);
  page.section("COMMANDS");
  write_commands(page, commands);
  write_arguments(page, "COMMON OPTIONS", globals);
  page.section("ENVIRONMENT");
  page.item("SPATE_FS", "the file system: its spate.toml or the folder of it");
  page.item("SPATE_SECTION_KEY", "overrides the key of spate.toml; spate.toml(5) names the variable of each");
  page.section("FILES");
  page.item(kMachineConfig, "the file system of this machine");
  page.section("EXIT STATUS");
  page.paragraph(kExitCodes);
  page.see_also({"spated(8)", "spate-mount(8)", "spate.toml(5)", "spate.h(3)", "spate(7)"});
  return page;
}

/// The allowed values and the default, a line each.
std::string limits_of(const config::Explanation& key) {
  const std::string variable = key.variable.empty() ? "" : "\nVariable: " + key.variable;
  return "Allowed: " + key.allowed + "\nDefault: " + key.default_value + variable;
}

}  // namespace

std::vector<ManualPage> command_pages(const ManualEdition& edition) {
  Context context;
  const std::vector<Argument> globals = global_options(context);
  std::vector<ManualPage> pages;
  const std::vector<Command> commands = all_commands();
  pages.push_back(main_page(commands, globals, edition));
  for (const Command& command : commands) {
    if (!command.group.empty()) pages.push_back(page_of(command, globals, edition));
  }
  return pages;
}

ManualPage configuration_page(const ManualEdition& edition) {
  ManualPage page({"spate.toml", '5', "what a Spate file system consists of", edition.date, edition.version});
  page.section("DESCRIPTION");
  page.paragraph(
      "One file describes a file system; all of its servers and clients read the same one.\n"
      "spate-up(1) writes it with comments, and `spate config check` looks for mistakes.\n\n"
      "The file is TOML, of which it needs sections, texts on one line, whole numbers, lists and comments.\n"
      "Sizes are numbers of bytes or texts such as \"64 KiB\"; durations are texts with a unit: \"100 ms\", \"30 s\".\n"
      "Relative paths start at the folder of the file. An unknown key is an error.\n\n"
      "A value on the command line (--set) wins over the environment, which wins over the file, which wins over the\n"
      "default. Keys of sections in double brackets, which may be repeated, are set in the file only.");
  for (const config::Section& section : config::sections()) {
    const std::string name(section.name);
    page.section(section.repeated ? "[[" + name + "]]" : "[" + name + "]");
    page.paragraph(section.doc);
    for (const config::Explanation& key : config::explanations(name)) {
      page.item(key.key, key.meaning, limits_of(key));
    }
  }
  page.section("FILES");
  page.item(kMachineConfig, "the file system of this machine");
  page.see_also({"spate(1)", "spate-config(1)", "spated(8)", "spate(7)"});
  return page;
}

ManualPage overview_page(const ManualEdition& edition) {
  ManualPage page({"spate", '7', "a striped, parallel file system in user space", edition.date, edition.version});
  page.section("DESCRIPTION");
  page.paragraph(
      "A Spate file system consists of servers, which spated(8) runs, and of what they store on their machines' "
      "disks.\n"
      "One of them, the meta server, keeps names and attributes. The io servers keep the contents: a file is cut into\n"
      "strips, which lie on the targets (storage devices) of several servers, so that its bandwidth is that of all.\n"
      "spate.toml(5) says which servers there are. A user with the client key that it names may use the file system.");
  page.subsection("First use, on one machine");
  page.paragraph("  spate up\n  spate mount -p /tmp/data\n  spate umount /tmp/data\n  spate down");
  page.subsection("Ways to use it");
  page.item("spate-mount(8), spate-mount(1)", "a mount, by FUSE");
  page.item("spate-run(1)", "a program that sees the file system as /spate, without a mount; also MPI-IO");
  page.item("spate.h(3)", "the C interface");
  page.item("spate-cp(1), spate-ls(1), ...", "commands on spate:/... paths");
  page.item("spate-export(1)", "network block devices");
  page.subsection("Several machines");
  page.paragraph(
      "The same spate.toml and the keys lie in /etc/spate on each; spate-setup(8) starts the servers that belong on a\n"
      "machine, by systemd. spate-status(1) shows them, spate-stats(1) what they do, spate-fsck(1) looks for damage.");
  page.see_also({"spate(1)", "spated(8)", "spate-setup(8)", "spate-mount(8)", "spate.toml(5)", "spate.h(3)"});
  return page;
}

}  // namespace spate::tools
