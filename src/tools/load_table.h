// SPDX-License-Identifier: Apache-2.0
// Who loads the servers: computes rates from two replies of each server, and shows them as rows, a table and JSON.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/ids.h"
#include "wire/session_messages.h"

namespace spate::tools {

/// A client as its description names it: "HOST:PID:PROGRAM" or "HOST:PID:PROGRAM:JOB".
struct ClientName {
  std::string host;
  std::string pid;
  std::string program;
  std::string job;
};
/// Text that does not have this form is taken as the program. Bytes that must not reach a terminal are escaped.
ClientName parse_description(std::string_view description);

/// Requests of one kind in a second.
struct LoadRate {
  double requests = 0;
  double failed = 0;
  double time_ns = 0;  // the sum of these requests' durations
  double bytes = 0;
};
using LoadRates = std::array<LoadRate, wire::kLoadKinds>;
LoadRate sum_of(const LoadRates& rates);

/// One line of a view: a client, several clients that were grouped, or a file.
struct LoadRow {
  ClientName name;
  std::string user;
  Handle file;       // in a view of files only
  std::string path;  // of the file, if it is known
  std::uint64_t clients = 1;
  LoadRates rates{};
};

/// The replies from which rates are computed.
using LoadReplies = std::map<ServerId, wire::ListLoadsReply>;
using FileLoadReplies = std::map<ServerId, wire::ListFileLoadsReply>;

struct LoadView {
  std::vector<LoadRow> rows;  // without rows that had no requests
  LoadRates others{};         // clients that the servers do not count separately
  double seconds = 0;         // between the answers
  bool of_files = false;      // the rows are files
};
/// Leaves out servers that are not in both rounds. A server that has restarted in between counts from its restart.
LoadView loads_between(const LoadReplies& before, const LoadReplies& now, std::string (*user_name)(std::uint32_t uid));

/// Yields a row for each file, without its path.
LoadView file_loads_between(const FileLoadReplies& before, const FileLoadReplies& now);

inline constexpr std::string_view kLoadGroups[] = {"client", "job", "user", "host", "program", "file"};
inline constexpr std::string_view kLoadOrders[] = {"load", "bytes", "requests", "time"};
/// Joins the rows of all clients of the same job, user, host or program. `group`: one of kLoadGroups; "client" and
/// "file" leave the rows as they are.
std::vector<LoadRow> grouped(std::vector<LoadRow> rows, std::string_view group);
/// Sorts the rows, the largest first. `order`: one of kLoadOrders; "load" orders by requests, and counts 64 KiB as one
/// request.
void sort_rows(std::vector<LoadRow>& rows, std::string_view order);

/// The path of a row's file, or the handle if the path is not known.
std::string file_name(const LoadRow& row);
/// At most `most` rows, and a line for the sum; no line is longer than `columns` (0: any length).
std::string load_table(const LoadView& view, std::size_t most, std::size_t columns);
nlohmann::json to_json(const LoadView& view, std::size_t most);

}  // namespace spate::tools
