// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>

#include "assembly/coordinator/registry.h"
#include "client/session/session.h"
#include "group/channel_link.h"
#include "group/record.h"
#include "tools/coord_commands.h"
#include "tools/output.h"
#include "tools/text.h"
#include "tools/voters.h"

namespace spate::tools {
namespace {

constexpr std::uint32_t kMetaGroup = 0;  // the group that the meta servers form
constexpr Duration kAnswerTimeout = std::chrono::seconds(5);

struct MemberReport {
  ServerId server;
  std::optional<group::Answer> answer;  // nothing: the server does not answer
};

struct RestoreInput {
  std::optional<coord::Record> found;  // the present record at the coordinator
  std::vector<MemberReport> reports;   // of all meta servers of spate.toml, in order
};

job::Task<Result<RestoreInput>> look(coord::Coordinator& coordinator, group::Link& link,
                                     std::vector<ServerId> members) {
  RestoreInput input;
  const std::string key = group::record_key(kMetaGroup);
  const job::StopToken never;
  const auto seen = co_await coordinator.read(key, never);
  if (!seen) co_return etcd_error(seen.error());
  if (const coord::Record* const record = seen->find(key); record != nullptr) input.found = *record;
  const auto question = std::make_shared<group::Message>();
  question->group = kMetaGroup;
  question->number = group::kAsksForMin;
  question->record = group::new_group(members, 1);
  for (const ServerId member : members) {
    question->from = member;
    const std::shared_ptr<const group::Message> sent = question;
    auto answer = co_await link.send(member, sent, kAnswerTimeout, never);
    input.reports.push_back({member, answer ? std::optional(*std::move(answer)) : std::nullopt});
  }
  co_return input;
}

std::uint64_t latest_epoch(const std::vector<MemberReport>& reports) {
  std::uint64_t epoch = 0;
  for (const MemberReport& report : reports)
    if (report.answer) epoch = std::max({epoch, report.answer->epoch, report.answer->last.epoch});
  return epoch;
}

/// The member with the latest changes. Members whose copies are incomplete do not count; null: there is no other.
const MemberReport* best_of(const std::vector<MemberReport>& reports) {
  const MemberReport* best = nullptr;
  for (const MemberReport& report : reports) {
    if (!report.answer || report.answer->incomplete) continue;
    if (best == nullptr || report.answer->last > best->answer->last) best = &report;
  }
  return best;
}

/// The `min` of the newest record that a member knows. A member knows none if it was started after etcd had lost the
/// record.
std::optional<std::uint32_t> known_min(const std::vector<MemberReport>& reports) {
  const group::Answer* newest = nullptr;
  for (const MemberReport& report : reports) {
    if (!report.answer || report.answer->min == 0 || report.answer->min > reports.size()) continue;
    if (newest == nullptr || report.answer->epoch > newest->epoch) newest = &*report.answer;
  }
  return newest == nullptr ? std::nullopt : std::optional(newest->min);
}

/// The meta servers that --without names. kInvalidArgument: a word is no number of a meta server of spate.toml.
Result<std::vector<ServerId>> gone_servers(const std::vector<std::string>& words,
                                           const std::vector<ServerId>& members) {
  std::vector<ServerId> gone;
  for (const std::string& word : words) {
    std::uint32_t number = 0;
    const char* const end = word.data() + word.size();
    const auto parsed = std::from_chars(word.data(), end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end)
      return Error::told(Errc::kInvalidArgument,
                         "--without takes the number of a meta server, not \"" + printable(word) + "\"");
    if (std::ranges::find(members, ServerId(number)) == members.end()) {
      std::vector<std::uint32_t> numbers;
      for (const ServerId member : members) numbers.push_back(member.value);
      return Error::told(Errc::kInvalidArgument,
                         fmt::format("--without {}: spate.toml has no meta server with this number, but {}", number,
                                     fmt::join(numbers, ", ")));
    }
    gone.emplace_back(number);
  }
  return gone;
}

bool is_in(const std::vector<ServerId>& servers, ServerId server) {
  return std::ranges::find(servers, server) != servers.end();
}

/// Fails unless each member either answers or is in `without`: a silent member may hold changes that the others lack.
Result<void> check_all_answer(const std::vector<MemberReport>& reports, const std::vector<ServerId>& without) {
  for (const MemberReport& report : reports) {
    const std::uint32_t number = report.server.value;
    const bool gone = is_in(without, report.server);
    if (gone && report.answer)
      return Error::told(Errc::kInvalidArgument,
                         fmt::format("--without {}: this server answers, so it must take part", number));
    if (gone || report.answer) continue;
    return Error::told(
        Errc::kUnreachable,
        fmt::format("server {0} does not answer. It may hold changes that the other servers lack, so start it. If it "
                    "is gone for good, add --without {0}: then the changes that only it held are lost",
                    number));
  }
  return {};
}

/// Whether the record names as serving only members that are gone for good.
bool all_are_gone(const group::GroupRecord& record, const std::vector<ServerId>& without) {
  return std::ranges::all_of(record.members, [&](const group::MemberEntry& member) {
    return !member.serving || is_in(without, member.server);
  });
}

struct Restored {
  std::optional<group::GroupRecord> record;  // nothing: the present one is good
  bool min_is_known = true;                  // its `min` is the last one that was set
};

/// A record that lets the best member lead. Nothing: the coordinator's record is no older than any member's, and one of
/// those that serve is there. `min`: of the record if neither the coordinator nor a member knows one.
Result<Restored> new_record(const RestoreInput& input, const std::vector<ServerId>& without, std::uint32_t min) {
  std::optional<group::GroupRecord> old;
  if (input.found) {
    SPATE_TRY(old, group::decode_group_record(input.found->value));
  }
  const std::uint64_t epoch = latest_epoch(input.reports);
  if (old && old->epoch >= epoch && !all_are_gone(*old, without)) return Restored();
  if (epoch <= 1 && !old)
    return Error::told(Errc::kNotFound,
                       "no meta server holds any records. A new file system makes the coordinator's record by itself");
  const MemberReport* const best = best_of(input.reports);
  if (best == nullptr)
    return Error::told(Errc::kNotFound, "none of the meta servers that answer holds a complete name space");
  std::vector<ServerId> members;
  for (const MemberReport& report : input.reports) members.push_back(report.server);
  const bool is_old = !old || old->epoch < epoch;
  const std::optional<std::uint32_t> known = is_old ? known_min(input.reports) : old->min;
  group::GroupRecord record = group::new_group(members, known.value_or(old ? old->min : min));
  for (group::MemberEntry& member : record.members) member.serving = member.server == best->server;
  record.find(best->server)->process = best->answer->process;
  record.epoch = std::max(epoch, old ? old->epoch : 0) + 1;
  record.primary = best->server;
  record.loss = old ? old->loss : 0;
  // A `loss` number that the group has never had tells clients that changes may be lost.
  if (!without.empty() || best->answer->tail_unknown)
    record.loss = std::max(record.loss + 1, static_cast<std::uint64_t>(std::time(nullptr)));
  return Restored{std::move(record), known.has_value()};
}

job::Task<Result<std::uint64_t>> write_record(coord::Coordinator& coordinator, std::uint64_t from,
                                              group::GroupRecord record) {
  const std::string key = group::record_key(kMetaGroup);
  coord::Change change;
  change.compare(key, from).put(key, group::encode(record));
  const job::StopToken never;
  auto made = co_await coordinator.change(std::move(change), never);
  if (made.code() == Errc::kConflict)
    co_return Error::told(Errc::kConflict, "somebody else has just changed the record. `spate status` shows who leads");
  if (!made) co_return etcd_error(made.error());
  co_return made;
}

group::ChannelLinkOptions link_options(const client::Options& client, const config::FileSystemConfig& config) {
  group::ChannelLinkOptions options;
  options.fs = config.fs.id;
  options.server_key = *client.server_key;
  options.handshake = client.handshake;
  options.description = client.description + " (coord restore)";
  for (const config::ServerConfig& server : config.servers)
    if (server.roles.meta) options.members.push_back({server.id, server.urls});
  return options;
}

/// The user must have said twice that servers are gone: changes that only they held are lost.
Result<void> check_accepted(const RestoreInput& input, const group::GroupRecord& record) {
  std::vector<std::uint32_t> gone;
  for (const MemberReport& report : input.reports)
    if (!report.answer) gone.push_back(report.server.value);
  if (gone.empty()) return {};
  return Error::told(
      Errc::kInvalidArgument,
      fmt::format("server {} would lead, as it has the latest changes of the servers that answer. All changes of names "
                  "that only server {} held would be LOST, also those that were acknowledged. If the lost servers are "
                  "gone for good, and do not run anywhere, add --accept-loss",
                  record.primary.value, fmt::join(gone, ", ")));
}

Result<Restored> restore(assembly::ClientProcess& process, const RestoreOptions& options) {
  const config::FileSystemConfig& config = process.config();
  if (config.meta.coordinator.empty())
    return Error::told(Errc::kNotSupported, "this file system has a single meta server and needs no coordinator");
  std::vector<ServerId> members;
  for (const config::ServerConfig& server : config.servers)
    if (server.roles.meta) members.push_back(server.id);
  std::ranges::sort(members, {}, &ServerId::value);
  SPATE_TRY(const std::vector<ServerId> without, gone_servers(options.without, members));
  SPATE_TRY(const auto coordinator, assembly::make_coordinator(config, process.executor()));
  client::Session& session = process.client().session();
  group::ChannelLink link(link_options(session.options(), config), session.network(), process.random());
  SPATE_TRY(const RestoreInput input, process.run([&](client::Client&) { return look(*coordinator, link, members); }));
  SPATE_TRY(std::ignore, check_all_answer(input.reports, without));
  SPATE_TRY(Restored restored, new_record(input, without, config.meta.min_copies));
  if (!restored.record) return restored;
  const group::GroupRecord& record = *restored.record;
  if (!options.accept_loss) {
    SPATE_TRY(std::ignore, check_accepted(input, record));
  }
  const std::uint64_t from = input.found ? input.found->revision : 0;
  SPATE_TRY(std::ignore, process.run([&](client::Client&) { return write_record(*coordinator, from, record); }));
  return restored;
}

}  // namespace

int restore_record(Context& context, const RestoreOptions& options) {
  context.names_dead_servers = false;
  auto process = context.file_system(true);
  if (!process) return context.fail(process.error());
  const auto restored = restore(**process, options);
  if (!restored) return context.fail(restored.error());
  const auto& record = restored->record;
  if (context.json) {
    nlohmann::json row = {{"changed", record.has_value()}};
    if (record) row.update({{"epoch", record->epoch}, {"primary", record->primary.value}, {"min", record->min}});
    context.print_json(std::move(row));
  } else if (!record) {
    print("Nothing needs to be done: the coordinator's record is as recent as what the meta servers know.\n");
  } else if (!context.quiet) {
    print(fmt::format(
        "The coordinator has a new record. Server {} holds the latest changes and leads after epoch {}. The other "
        "servers receive what they lack. Changes of names need {} of {} meta servers{}.\n",
        record->primary.value, record->epoch, record->min, record->members.size(),
        restored->min_is_known ? "" : ", as spate.toml says: no server knows what `spate coord min` has set"));
  }
  return kExitOk;
}

}  // namespace spate::tools
