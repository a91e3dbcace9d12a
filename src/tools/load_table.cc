// SPDX-License-Identifier: Apache-2.0
#include "tools/load_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/printable.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

using wire::LoadCounts;
using Key = std::pair<wire::PeerKind, std::uint64_t>;  // a file has kClient and its handle

constexpr double kBytesOfARequest = 64.0 * 1024;
constexpr std::array<const char*, wire::kLoadKinds> kKindNames = {"read", "write", "look", "change"};

LoadCounts count_at(const std::vector<LoadCounts>& counts, std::size_t kind) {
  return kind < counts.size() ? counts[kind] : LoadCounts();  // servers of other versions may have other kinds
}

/// The increase of a count that never falls. Yields 0 if a server reports a smaller number than before.
double grown(std::uint64_t now, std::uint64_t before) { return now < before ? 0 : static_cast<double>(now - before); }

void add(LoadRates& rates, const std::vector<LoadCounts>& now, const std::vector<LoadCounts>& before, double seconds) {
  for (std::size_t kind = 0; kind < rates.size(); ++kind) {
    const LoadCounts a = count_at(before, kind);
    const LoadCounts b = count_at(now, kind);
    rates.at(kind).requests += grown(b.requests, a.requests) / seconds;
    rates.at(kind).failed += grown(b.failed, a.failed) / seconds;
    rates.at(kind).time_ns += grown(b.time_ns, a.time_ns) / seconds;
    rates.at(kind).bytes += grown(b.bytes, a.bytes) / seconds;
  }
}

void add(LoadRates& rates, const LoadRates& more) {
  for (std::size_t kind = 0; kind < rates.size(); ++kind) {
    rates.at(kind).requests += more.at(kind).requests;
    rates.at(kind).failed += more.at(kind).failed;
    rates.at(kind).time_ns += more.at(kind).time_ns;
    rates.at(kind).bytes += more.at(kind).bytes;
  }
}

void add(std::vector<LoadCounts>& counts, const std::vector<LoadCounts>& more) {
  counts.resize(std::max(counts.size(), more.size()));
  for (std::size_t kind = 0; kind < more.size(); ++kind) {
    counts[kind].requests += more[kind].requests;
    counts[kind].failed += more[kind].failed;
    counts[kind].time_ns += more[kind].time_ns;
    counts[kind].bytes += more[kind].bytes;
  }
}

bool is_idle(const LoadRow& row) { return sum_of(row.rates).requests == 0; }

Key key_of(const wire::ClientLoad& load) { return {load.kind, load.client.value}; }
Key key_of(const wire::FileLoad& load) { return {wire::PeerKind::kClient, load.file.value}; }
const std::vector<wire::ClientLoad>& loads_of(const wire::ListLoadsReply& reply) { return reply.clients; }
const std::vector<wire::FileLoad>& loads_of(const wire::ListFileLoadsReply& reply) { return reply.files; }

/// The loads that one server reported in two replies. `Load` is ClientLoad or FileLoad.
template <typename Reply, typename Load>
class ServerLoads {
 public:
  ServerLoads(const Reply& before, const Reply& now) : now_(now), restarted_(now.now_ns <= before.now_ns) {
    others_before_ = restarted_ ? std::vector<LoadCounts>() : before.others;
    seconds_ = static_cast<double>(restarted_ ? now.now_ns : now.now_ns - before.now_ns) / 1e9;
    if (restarted_) return;
    for (const Load& one : loads_of(before)) before_[key_of(one)] = &one;
  }

  double seconds() const { return seconds_; }
  /// Adds this server's rates. `name(row, load)` describes the client or file in a row that is new.
  template <typename Name>
  void add_to(std::map<Key, LoadRow>& rows, LoadView& view, Name name) {
    if (seconds_ <= 0) return;
    for (const Load& one : loads_of(now_)) {
      const auto found = before_.find(key_of(one));
      const bool same = found != before_.end() && found->second->since_ns == one.since_ns;
      const auto [row, fresh] = rows.try_emplace(key_of(one));
      if (fresh) name(row->second, one);
      add(row->second.rates, one.kinds, same ? found->second->kinds : std::vector<LoadCounts>(), seconds_);
      if (same) before_.erase(found);
    }
    // The counts of clients that the server has dropped are among its `others` now. They are not of this interval.
    for (const auto& [key, gone] : before_) add(others_before_, gone->kinds);
    add(view.others, now_.others, others_before_, seconds_);
  }

 private:
  const Reply& now_;
  const bool restarted_;
  double seconds_ = 0;
  std::map<Key, const Load*> before_;
  std::vector<LoadCounts> others_before_;
};

/// `Load`: the kind of load that the replies list.
template <typename Load, typename Replies, typename Name>
LoadView view_of(const Replies& before, const Replies& now, Name name) {
  LoadView view;
  std::map<Key, LoadRow> rows;
  for (const auto& [server, reply] : now) {
    const auto old = before.find(server);
    if (old == before.end()) continue;
    ServerLoads<typename Replies::mapped_type, Load> loads(old->second, reply);
    loads.add_to(rows, view, name);
    view.seconds = std::max(view.seconds, loads.seconds());
  }
  for (auto& [key, row] : rows) {
    if (!is_idle(row)) view.rows.push_back(std::move(row));
  }
  return view;
}

double weight_of(const LoadRow& row, std::string_view order) {
  const LoadRate sum = sum_of(row.rates);
  if (order == "bytes") return sum.bytes;
  if (order == "requests") return sum.requests;
  if (order == "time") return sum.time_ns;
  return sum.requests + sum.bytes / kBytesOfARequest;
}

/// Clears the row's name and user except for the field `group`, which it returns.
std::string keep_only(LoadRow& row, std::string_view group) {
  const LoadRow whole = row;
  row.name = {};
  row.user.clear();
  if (group == "job") return row.name.job = whole.name.job;
  if (group == "host") return row.name.host = whole.name.host;
  if (group == "program") return row.name.program = whole.name.program;
  return row.user = whole.user;
}

std::string rate(double number) {
  return number > 0 && number < 9.95 ? fmt::format("{:.1f}", number) : fmt::format("{:.0f}", number);
}

std::string size_rate(double bytes) { return bytes < 1 ? "0" : human_size(static_cast<std::uint64_t>(bytes)); }

const LoadRate& of(const LoadRates& rates, wire::LoadKind kind) { return rates.at(static_cast<std::size_t>(kind)); }

std::string latency(const LoadRate& sum) {
  return sum.requests > 0 ? human_time(static_cast<std::uint64_t>(sum.time_ns / sum.requests)) : "-";
}

std::string numbers(const LoadRates& rates) {
  using wire::LoadKind;
  const LoadRate sum = sum_of(rates);
  return fmt::format("{:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9}", size_rate(of(rates, LoadKind::kRead).bytes),
                     size_rate(of(rates, LoadKind::kWrite).bytes), rate(of(rates, LoadKind::kRead).requests),
                     rate(of(rates, LoadKind::kWrite).requests), rate(of(rates, LoadKind::kLook).requests),
                     rate(of(rates, LoadKind::kChange).requests), rate(sum.failed), latency(sum));
}

std::string name_of(const LoadRow& row) {
  if (row.file) return "  " + file_name(row);
  const auto or_none = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
  std::string where = row.name.host;
  if (!row.name.pid.empty()) where += ":" + row.name.pid;
  std::string text = fmt::format("  {:<10} {:<12} {:<20} {}", or_none(row.user), or_none(row.name.job), or_none(where),
                                 or_none(row.name.program));
  if (row.clients > 1) text += fmt::format(" ({} clients)", row.clients);
  return text;
}

/// The beginning of the line that fits `columns` columns; each character takes one column.
std::string cut(const std::string& line, std::size_t columns) {
  if (columns == 0) return line;
  std::size_t end = 0;
  for (std::size_t shown = 0; end < line.size() && shown < columns; ++shown)
    end += std::max<std::size_t>(printable_size(std::string_view(line).substr(end)), 1);
  return line.substr(0, end);
}

nlohmann::json to_json(const LoadRates& rates) {
  nlohmann::json kinds;
  for (std::size_t kind = 0; kind < rates.size(); ++kind) {
    const LoadRate& one = rates.at(kind);
    kinds[kKindNames.at(kind)] = {{"requests_per_second", one.requests},
                                  {"failed_per_second", one.failed},
                                  {"bytes_per_second", one.bytes},
                                  {"mean_ns", one.requests > 0 ? one.time_ns / one.requests : 0.0}};
  }
  return kinds;
}

LoadRates total_of(const LoadView& view) {
  LoadRates total = view.others;
  for (const LoadRow& row : view.rows) add(total, row.rates);
  return total;
}

}  // namespace

ClientName parse_description(std::string_view description) {
  std::array<std::string_view, 4> parts;
  std::size_t count = 0;
  for (std::string_view rest = description; count < parts.size(); ++count) {
    const std::size_t end = count + 1 < parts.size() ? rest.find(':') : std::string_view::npos;
    parts.at(count) = rest.substr(0, end);
    if (end == std::string_view::npos) {
      ++count;
      break;
    }
    rest.remove_prefix(end + 1);
  }
  const std::string_view pid = parts[1];
  const bool number = !pid.empty() && pid.size() < 12 && pid.find_first_not_of("0123456789") == std::string_view::npos;
  if (count < 3 || !number) return {"", "", escape_controls(description), ""};
  return {escape_controls(parts[0]), std::string(pid), escape_controls(parts[2]), escape_controls(parts[3])};
}

LoadRate sum_of(const LoadRates& rates) {
  LoadRate sum;
  for (const LoadRate& one : rates) {
    sum.requests += one.requests;
    sum.failed += one.failed;
    sum.time_ns += one.time_ns;
    sum.bytes += one.bytes;
  }
  return sum;
}

LoadView loads_between(const LoadReplies& before, const LoadReplies& now, std::string (*user_name)(std::uint32_t uid)) {
  return view_of<wire::ClientLoad>(before, now, [user_name](LoadRow& row, const wire::ClientLoad& load) {
    const bool servers = load.kind == wire::PeerKind::kServer;
    row.name = servers ? ClientName{"", "", "(servers)", ""} : parse_description(load.description);
    row.user = servers ? "" : escape_controls(user_name(load.uid));
  });
}

LoadView file_loads_between(const FileLoadReplies& before, const FileLoadReplies& now) {
  LoadView view =
      view_of<wire::FileLoad>(before, now, [](LoadRow& row, const wire::FileLoad& load) { row.file = load.file; });
  view.of_files = true;
  return view;
}

std::vector<LoadRow> grouped(std::vector<LoadRow> rows, std::string_view group) {
  if (group == "client" || group == "file") return rows;
  std::map<std::string, LoadRow> groups;
  for (LoadRow& row : rows) {
    const std::string key = keep_only(row, group);
    const auto [at, fresh] = groups.try_emplace(key, row);
    if (fresh) continue;
    add(at->second.rates, row.rates);
    at->second.clients += row.clients;
  }
  rows.clear();
  for (auto& [key, row] : groups) rows.push_back(std::move(row));
  return rows;
}

void sort_rows(std::vector<LoadRow>& rows, std::string_view order) {
  const auto key = [&](const LoadRow& row) {
    return std::tuple(-weight_of(row, order), row.file, row.user, row.name.job, row.name.host, row.name.pid,
                      row.name.program);
  };
  std::sort(rows.begin(), rows.end(), [&](const LoadRow& a, const LoadRow& b) { return key(a) < key(b); });
}

std::string file_name(const LoadRow& row) {
  return row.path.empty() ? fmt::format("(file {:016x})", row.file.value) : printable(row.path);
}

std::string load_table(const LoadView& view, std::size_t most, std::size_t columns) {
  const std::string kClientColumns = fmt::format("{:<10} {:<12} {:<20} {}", "USER", "JOB", "HOST:PID", "PROGRAM");
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9}  {}", "READ/s", "WRITTEN/s", "reads/s",
                              "writes/s", "looks/s", "changes/s", "fails/s", "LATENCY",
                              view.of_files ? "FILE" : kClientColumns));
  for (std::size_t i = 0; i < std::min(most, view.rows.size()); ++i)
    lines.push_back(numbers(view.rows[i].rates) + name_of(view.rows[i]));
  if (view.rows.size() > most) lines.push_back(fmt::format("... and {} more", view.rows.size() - most));
  if (sum_of(view.others).requests > 0) lines.push_back(numbers(view.others) + "  others, that are not kept apart");
  lines.push_back(numbers(total_of(view)) + "  all");
  std::string text;
  for (const std::string& line : lines) text += cut(line, columns) + "\n";
  return text;
}

nlohmann::json to_json(const LoadView& view, std::size_t most) {
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < std::min(most, view.rows.size()); ++i) {
    const LoadRow& row = view.rows[i];
    nlohmann::json one = to_json(row.rates);
    if (row.file) {
      one.update({{"handle", row.file.value}, {"path", printable(row.path)}});
      rows.push_back(std::move(one));
      continue;
    }
    one.update({{"host", row.name.host},
                {"pid", row.name.pid},
                {"program", row.name.program},
                {"job", row.name.job},
                {"user", row.user},
                {"clients", row.clients}});
    rows.push_back(std::move(one));
  }
  return {{"seconds", view.seconds},
          {view.of_files ? "files" : "clients", rows},
          {"others", to_json(view.others)},
          {"total", to_json(total_of(view))}};
}

}  // namespace spate::tools
