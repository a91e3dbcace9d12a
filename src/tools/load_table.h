// SPDX-License-Identifier: Apache-2.0
// Who loads the servers: rates out of two answers of each server, as rows, a table and JSON.
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
/// Any text is a program if it has not that form. Bytes that must not reach a terminal are escaped.
ClientName parse_description(std::string_view description);

/// What is asked in a second.
struct LoadRate {
  double requests = 0;
  double failed = 0;
  double time_ns = 0;  // of all these requests together
  double bytes = 0;
};
using LoadRates = std::array<LoadRate, wire::kLoadKinds>;
LoadRate sum_of(const LoadRates& rates);

/// A client, several that are one in this view, or a file.
struct LoadRow {
  ClientName name;
  std::string user;
  Handle file;       // of a view of files only
  std::string path;  // of the file, if it is known
  std::uint64_t clients = 1;
  LoadRates rates{};
};

/// The answers of servers by which rates are known.
using LoadReplies = std::map<ServerId, wire::ListLoadsReply>;
using FileLoadReplies = std::map<ServerId, wire::ListFileLoadsReply>;

struct LoadView {
  std::vector<LoadRow> rows;  // without those that have asked nothing
  LoadRates others{};         // of clients that the servers have no counts of
  double seconds = 0;         // between the answers
  bool of_files = false;      // the rows are files
};
/// A server that is not in both is left out. One that was started anew in between counts since then.
LoadView loads_between(const LoadReplies& before, const LoadReplies& now, std::string (*user_name)(std::uint32_t uid));

/// A row for each file, without its path.
LoadView file_loads_between(const FileLoadReplies& before, const FileLoadReplies& now);

inline constexpr std::string_view kLoadGroups[] = {"client", "job", "user", "host", "program", "file"};
inline constexpr std::string_view kLoadOrders[] = {"load", "bytes", "requests", "time"};
/// Makes one row of all clients of a job, user, host or program. `group`: one of kLoadGroups; "client" and "file" leave
/// the rows as they are.
std::vector<LoadRow> grouped(std::vector<LoadRow> rows, std::string_view group);
/// Sorts the rows; the greatest is first. `order`: one of kLoadOrders; "load": requests, and bytes where 64 KiB are
/// one.
void sort_rows(std::vector<LoadRow>& rows, std::string_view order);

/// The path of a row of a file, or its handle.
std::string file_name(const LoadRow& row);
/// At most `most` rows, and a line for the sum; no line is longer than `columns` (0: any length).
std::string load_table(const LoadView& view, std::size_t most, std::size_t columns);
nlohmann::json to_json(const LoadView& view, std::size_t most);

}  // namespace spate::tools
