// SPDX-License-Identifier: Apache-2.0
// `spate explain`: which data path a read or write of a file would take, and why.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "tools/commands.h"
#include "tools/name_space.h"
#include "wire/data_path.h"

namespace spate::tools {
namespace {

struct ExplainOptions {
  std::string path;
  std::string offset = "0";
  std::string size;
  std::string forced;
  bool write = false;
};

constexpr std::uint64_t kDefaultSize = 1U << 20U;

struct Question {
  client::NamePath where;
  std::uint64_t offset = 0;
  std::uint64_t size = kDefaultSize;
  wire::DataPath forced = wire::DataPath::kAutomatic;
  bool write = false;
};

job::Task<Result<std::vector<client::SlotPath>>> ask(client::Client& client, const Question& question) {
  const std::uint8_t flags = question.write ? wire::kOpenWrite : wire::kOpenRead;
  SPATE_CO_TRY(auto file, co_await client.open(question.where, flags));
  file->force_path(question.forced);
  auto answers = co_await file->explain(question.offset, question.size, question.write);
  std::ignore = co_await file->close();
  co_return answers;
}

Result<wire::DataPath> path_named(const std::string& name) {
  const auto path = name.empty() ? wire::DataPath::kAutomatic : wire::data_path_of(name);
  if (path) return *path;
  return Error::told(Errc::kInvalidArgument, "--path is " + wire::all_data_paths() + ", not \"" + name + "\"");
}

Result<Question> question_of(const ExplainOptions& options) {
  Question question;
  question.write = options.write;
  SPATE_TRY(question.forced, path_named(options.forced));
  SPATE_TRY(question.offset, parse_size(options.offset));
  if (!options.size.empty()) {
    SPATE_TRY(question.size, parse_size(options.size));
  }
  return question;
}

int run_explain(Context& context, const ExplainOptions& options) {
  if (!is_remote(options.path)) return context.usage_not_remote(options.path);
  auto question = question_of(options);
  if (!question) return context.usage(question.error().message());
  auto process = context.file_system();
  if (!process) return context.fail(process.error());
  question->where = client::path_from_root(remote_path(options.path));
  const auto answers = (*process)->run([&](client::Client& client) { return ask(client, *question); });
  if (!answers) return context.fail(answers.error(), options.path);
  nlohmann::json list = nlohmann::json::array();
  for (const client::SlotPath& slot : *answers) {
    list.push_back({{"slot", slot.slot},
                    {"target", slot.target.value},
                    {"server", slot.server},
                    {"path", slot.path},
                    {"why", slot.why},
                    {"no_bypass", slot.no_bypass}});
    if (context.json) continue;
    print(fmt::format("slot {} on target {}, {}: {} ({})\n", slot.slot, slot.target.value, slot.server, slot.path,
                      slot.why));
    if (!slot.no_bypass.empty()) print(fmt::format("  not past the server: {}\n", slot.no_bypass));
  }
  if (context.json) context.print_json(list);
  return kExitOk;
}

}  // namespace

Command make_explain() {
  auto options = std::make_shared<ExplainOptions>();
  Command command;
  command.name = "explain";
  command.group = "Look";
  command.summary = "show which data path a read or write of a file would take, and why";
  command.details = "Asks the servers that hold the file. No data are moved. docs/data-paths.md describes the paths.";
  command.positionals = {{"FILE", "spate:/...", &options->path, true}};
  command.options = {{"-w,--write", "explain a write instead of a read", &options->write},
                     {"--offset", "where the access begins", &options->offset},
                     {"--size", "bytes of the access (1MiB)", &options->size},
                     {"--path",
                      "explain an access that asks for this path by name",
                      &options->forced,
                      false,
                      {wire::kDataPathNames.begin(), wire::kDataPathNames.end()}}};
  command.run = [options](Context& context) { return run_explain(context, *options); };
  return command;
}

}  // namespace spate::tools
