// SPDX-License-Identifier: Apache-2.0
// `spate fsck`: finds damage in a file system that may be in use, and repairs it.
#include "tools/fsck.h"

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "fsck/check.h"
#include "fsck/texts.h"
#include "model/data_group.h"
#include "tools/commands.h"

namespace spate::tools {
namespace {

/// As fsck(8).
constexpr int kExitOperational = 8;

struct FsckOptions {
  bool repair = false;
  bool dry_run = false;
  bool names_only = false;
  bool contents = false;
  bool progress = false;
  std::uint64_t grace_s = 60;
  std::uint64_t memory_mib = 64;
  std::uint64_t rate_mib = 100;
  std::vector<std::string> trusted;
};

/// The fields of a finding for programs.
nlohmann::json json_of(const fsck::Report& report) {
  const wire::Finding& finding = report.finding;
  nlohmann::json row = {{"damage", wire::damage_name(finding.damage)},
                        {"outcome", fsck::outcome_name(report.outcome)},
                        {"subject", fsck::subject(report)},
                        {"text", fsck::complaint(report)}};
  if (!report.note.empty()) row["note"] = report.note;
  if (!report.path.empty()) row["path"] = report.path;
  if (finding.handle) row["handle"] = finding.handle.value;
  if (finding.directory) row["directory"] = finding.directory.value;
  if (!finding.name.empty()) row["name"] = finding.name;
  if (finding.client) row["client"] = finding.client.value;
  if (finding.slot.target) {
    row["target"] = finding.slot.target.value;
    row["slot"] = finding.slot.slot;
  }
  if (finding.recorded != 0 || finding.actual != 0) {
    row["recorded"] = finding.recorded;
    row["actual"] = finding.actual;
  }
  return row;
}

std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);  // names may have any bytes
}

/// Prints findings as they come, so that a million of them need no memory, and the progress of the check.
class Printer final : public fsck::Observer {
 public:
  Printer(const Context& context, const FsckOptions& options) : context_(context), options_(options) {
    progress_ = (context.stderr_is_terminal() || options.progress) && !context.quiet && !context.json;
    line_ = context.stderr_is_terminal();
  }

  void begin() const {
    if (context_.json) print("{\"findings\":[");
  }
  void found(const fsck::Report& report) override {
    if (report.outcome == fsck::Outcome::kFound) ++repairable_;
    ++found_;
    if (context_.json) {
      print(std::string(found_ > 1 ? ",\n" : "\n") + dump(json_of(report)));
      return;
    }
    if (context_.quiet) return;
    wipe();
    std::string text = fmt::format("{:<24} {} {}\n", wire::damage_name(report.finding.damage), fsck::subject(report),
                                   fsck::complaint(report));
    text += fmt::format("{:<24} {}\n", "", consequence(report));
    print(text);
  }
  void progress(const fsck::Progress& progress) override {
    if (!progress_) return;
    const auto now = std::chrono::steady_clock::now();
    const bool fresh = progress.phase != phase_ || progress.pass != pass_;
    if (!fresh && now - told_ < std::chrono::milliseconds(200)) return;
    if (!fresh && !line_) return;  // in a log one line a phase is enough
    told_ = now;
    phase_ = progress.phase;
    pass_ = progress.pass;
    std::string text =
        fmt::format("fsck: pass {}, {}: {}", progress.pass, fsck::phase_name(progress.phase), progress.done);
    if (progress.expected > 0) text += fmt::format(" of about {}", std::max(progress.expected, progress.done));
    std::fprintf(stderr, line_ ? "\r\x1b[K%s" : "%s\n", text.c_str());
    on_line_ = line_;
  }
  /// Removes the progress line.
  void wipe() {
    if (on_line_) std::fprintf(stderr, "\r\x1b[K");
    on_line_ = false;
  }
  void end(const fsck::Summary& summary) {
    wipe();
    if (context_.json) {
      end_json(summary);
    } else if (!context_.quiet) {
      print(conclusion(summary));
    }
  }

 private:
  std::string consequence(const fsck::Report& report) const {
    const std::string note = printable(report.note);
    switch (report.outcome) {
      case fsck::Outcome::kRepaired: return "repaired" + (note.empty() ? std::string() : ": " + note);
      case fsck::Outcome::kLeft: return "not repaired: " + note;
      case fsck::Outcome::kFound: break;
    }
    return "--repair " + std::string(fsck::remedy(report.finding.damage)) + (note.empty() ? "" : " (" + note + ")");
  }
  /// The command that repairs what this one has found.
  std::string command() const {
    std::string text = "spate fsck";
    if (options_.contents) text += " --contents";
    text += " --repair";
    for (const std::string& trusted : options_.trusted) text += " --trust " + trusted;
    return text;
  }
  std::string conclusion(const fsck::Summary& s) const {
    std::string text = fmt::format("{} objects, {} names", s.inodes, s.entries);
    if (!options_.names_only) text += fmt::format(", {} datafiles", s.datafiles);
    text += s.passes > 1 ? fmt::format(" checked, in {} passes.\n", s.passes) : " checked.\n";
    if (s.unfinished > 0) {
      text += fmt::format("{} removals, truncations or sizes are under way in the background: that is no damage.\n",
                          s.unfinished);
    }
    if (s.parents > 0) text += fmt::format("{} objects know their directory now: that was no damage.\n", s.parents);
    if (s.repaired > 0) text += fmt::format("{} repaired.\n", s.repaired);
    if (repairable_ > 0) text += fmt::format("{} can be repaired: run `{}`.\n", repairable_, command());
    const std::uint64_t by_hand = s.left - std::min(s.left, repairable_);
    if (by_hand > 0) text += fmt::format("{} not repaired: see above, and \"By hand\" in docs/fsck.md.\n", by_hand);
    if (s.undecided > 0) {
      text += fmt::format("{} objects kept changing while they were looked at: run fsck again.\n", s.undecided);
    }
    for (const std::string& server : s.unchecked) {
      text += fmt::format("NOT CHECKED: {}\n", printable(server));
    }
    if (!s.unchecked.empty()) text += "See `spate status`, start what is down, and run fsck again.\n";
    if (s.exit_code() == 0) text += "clean\n";
    return text;
  }
  void end_json(const fsck::Summary& s) const {
    const nlohmann::json summary = {
        {"inodes", s.inodes},       {"names", s.entries}, {"datafiles", s.datafiles},   {"unfinished", s.unfinished},
        {"undecided", s.undecided}, {"found", s.found},   {"repaired", s.repaired},     {"left", s.left},
        {"unchecked", s.unchecked}, {"passes", s.passes}, {"exit_code", s.exit_code()}, {"clean", s.exit_code() == 0},
        {"parents", s.parents}};
    print("],\n\"summary\":" + dump(summary) + "}\n");
  }

  const Context& context_;
  const FsckOptions& options_;
  bool progress_ = false;
  bool line_ = false;     // the progress line is rewritten in place
  bool on_line_ = false;  // there is text on the line
  fsck::Phase phase_ = fsck::Phase::kRepairs;
  unsigned pass_ = 0;
  std::chrono::steady_clock::time_point told_;
  std::uint64_t found_ = 0;
  std::uint64_t repairable_ = 0;
};

/// Prints the error. With --json it is JSON, since a program reads it.
int fail(Context& context, const Error& error) {
  if (context.json) print("],\n\"error\":" + dump(nlohmann::json(error.message())) + "}\n");
  context.tell("fsck: " + error.message());
  return kExitOperational;
}

/// TARGET or TARGET:HANDLE. Without a target: it is neither.
fsck::Trusted parse_trusted(const std::string& text) {
  fsck::Trusted trusted;
  const char* const last = text.data() + text.size();
  auto [end, error] = std::from_chars(text.data(), last, trusted.target.value);
  if (error == std::errc() && end != last && *end == ':') {
    const auto handle = std::from_chars(end + 1, last, trusted.handle.value);
    end = handle.ptr;
    error = trusted.handle ? handle.ec : std::errc::invalid_argument;
  }
  const bool good = error == std::errc() && end == last && trusted.target < kFirstGroup;
  return good ? trusted : fsck::Trusted();
}

int run_fsck(Context& context, const FsckOptions& options) {
  if (options.repair && options.dry_run) return context.usage("--repair and --dry-run exclude each other");
  if (options.contents && options.names_only) return context.usage("--contents and --names-only exclude each other");
  if (!options.trusted.empty() && options.names_only)
    return context.usage("--trust and --names-only exclude each other");
  fsck::Options check;
  for (const std::string& text : options.trusted) {
    const fsck::Trusted trusted = parse_trusted(text);
    if (!trusted.target)
      return context.usage(
          "--trust needs the number of a target, as fsck and `spate getstripe` show it, or TARGET:OBJECT, not \"" +
          printable(text) + "\"");
    check.trusted.push_back(trusted);
  }
  check.contents = options.contents;
  check.contents_rate = std::min<std::uint64_t>(options.rate_mib, 1U << 30U) << 20U;
  check.repair = options.repair;
  check.data = !options.names_only;
  check.grace = std::chrono::seconds(std::min<std::uint64_t>(options.grace_s, 1U << 30U));
  check.table_bytes = std::clamp<std::uint64_t>(options.memory_mib, 1, 1U << 20U) << 20U;
  Printer printer(context, options);
  printer.begin();
  auto process = context.file_system(true);
  if (!process) {
    const bool refused = process.code() == Errc::kPermissionDenied;
    return fail(context,
                refused ? std::move(process).error().within("run it as the owner of the server key") : process.error());
  }
  client::Session& session = (*process)->client().session();
  fsck::Servers servers(servers_options(session), session.network(), (*process)->random());
  const auto summary = (*process)->run([&](client::Client&) { return fsck::run(servers, check, printer); });
  printer.wipe();
  if (!summary) return fail(context, summary.error());
  printer.end(*summary);
  return summary->exit_code();
}

}  // namespace

fsck::ServersOptions servers_options(client::Session& session) {
  const client::Options& client = session.options();
  fsck::ServersOptions options;
  options.map = session.servers().map();
  options.server_key = *client.server_key;
  options.handshake = client.handshake;
  options.credential = client.credential;
  options.description = client.description + " (fsck)";
  options.deadline = client.deadline;
  options.io_deadline = std::min<Duration>(client.deadline, options.io_deadline);
  options.watch = session.servers().watch();
  return options;
}

Command make_fsck() {
  auto options = std::make_shared<FsckOptions>();
  Command command;
  command.name = "fsck";
  command.group = "Start and stop";
  command.summary = "look for damage, and repair it";
  command.details =
      "The file system may be in use. Only a user with the server key (server_key_file in spate.toml) may do this.\n"
      "Exit code: 0 clean, 1 repaired, 4 damage left, 8 incomplete or failed, or the sum of these; 2 usage.\n"
      "What each finding means: docs/fsck.md";
  command.options = {
      {"--repair", "repair what can be repaired; without it nothing is changed", &options->repair},
      {"-n,--dry-run", "change nothing (the default)", &options->dry_run},
      {"--names-only", "only the name space: the io servers are not asked", &options->names_only},
      {"--contents", "also compare what the copies of mirrored files contain: reads all of them", &options->contents},
      {"--rate", "MiB a second that --contents reads of each copy at most (100); 0: no limit", &options->rate_mib},
      {"--trust", "where copies differ, the one on this TARGET is right; TARGET:OBJECT: of this file; may be repeated",
       &options->trusted},
      {"--progress", "show the progress on standard error even if it is not a terminal", &options->progress},
      {"--grace", "seconds after which work in the background should be done (60)", &options->grace_s},
      {"--memory", "MiB for the table of inodes (64); less makes large file systems slower", &options->memory_mib}};
  command.run = [options](Context& context) { return run_fsck(context, *options); };
  return command;
}

}  // namespace spate::tools
