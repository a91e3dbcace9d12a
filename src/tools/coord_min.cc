// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "assembly/coordinator/registry.h"
#include "config/load.h"
#include "group/record.h"
#include "tools/coord_commands.h"
#include "tools/output.h"
#include "tools/text.h"
#include "tools/voters.h"

namespace spate::tools {
namespace {

constexpr std::uint32_t kGroupOfMetaServers = 0;
constexpr int kMostTries = 20;  // the meta server that leads changes the record, too

/// The record, and where it is kept.
struct Kept {
  SystemClock clock;
  job::Executor executor{clock};
  std::unique_ptr<coord::Coordinator> coordinator;
  group::GroupRecord record;
  std::uint64_t revision = 0;
};

Result<void> read_record(Kept& kept) {
  const std::string key = group::record_key(kGroupOfMetaServers);
  const auto seen = kept.executor.run(kept.coordinator->read(key, {}));
  if (!seen) return etcd_error(seen.error());
  const coord::Record* const found = seen->find(key);
  if (found == nullptr)
    return Error::told(Errc::kNotFound, "the coordinator has no record of the meta servers: `spate coord restore`");
  SPATE_TRY(kept.record, group::decode_group_record(found->value));
  kept.revision = found->revision;
  return {};
}

Result<void> open_record(Context& context, Kept& kept) {
  SPATE_TRY(const std::string file, context.config_file());
  SPATE_TRY(const auto loaded, config::load_file(file, {}));
  if (loaded.config.meta.coordinator.empty())
    return Error::told(Errc::kNotSupported, "this file system has a single meta server, so one copy of the names");
  SPATE_TRY(kept.coordinator, assembly::make_coordinator(loaded.config, kept.executor));
  return read_record(kept);
}

Result<std::uint32_t> number_of(const std::string& word, std::size_t members) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error == std::errc() && end == word.data() + word.size() && number >= 1 && number <= members) return number;
  return Error::told(
      Errc::kInvalidArgument,
      fmt::format("coord min takes 1 to {}, the number of meta servers, not \"{}\"", members, printable(word)));
}

Result<void> write_min(Kept& kept, const std::string& word) {
  const std::string key = group::record_key(kGroupOfMetaServers);
  for (int tries = 0;; ++tries) {
    SPATE_TRY(const std::uint32_t min, number_of(word, kept.record.members.size()));
    if (kept.record.min == min) return {};
    group::GroupRecord wanted = kept.record;
    wanted.min = min;
    coord::Change change;
    change.compare(key, kept.revision).put(key, group::encode(wanted));
    const auto made = kept.executor.run(kept.coordinator->change(std::move(change), {}));
    if (!made && (made.code() != Errc::kConflict || tries == kMostTries)) return etcd_error(made.error());
    SPATE_TRY(std::ignore, read_record(kept));
  }
}

}  // namespace

int min_copies_of_names(Context& context, const std::string& word) {
  Kept kept;
  const auto opened = open_record(context, kept);
  if (!opened) return context.fail(opened.error());
  if (!word.empty()) {
    const auto written = write_min(kept, word);
    if (written.code() == Errc::kInvalidArgument) return context.usage(written.error().message());
    if (!written) return context.fail(written.error());
  }
  const group::GroupRecord& record = kept.record;
  if (context.json) {
    context.print_json({{"min", record.min}, {"serving", record.serving()}, {"members", record.members.size()}});
  } else if (!context.quiet) {
    const char* const waits = record.serving() < record.min ? ", so changes wait" : "";
    print(fmt::format("Changes of names need {} of {} meta servers. {} hold everything now{}.\n", record.min,
                      record.members.size(), record.serving(), waits));
  }
  return kExitOk;
}

}  // namespace spate::tools
