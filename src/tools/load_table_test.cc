// SPDX-License-Identifier: Apache-2.0
#include "tools/load_table.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/expect.h"
#include "base/printable.h"
#include "tools/text.h"

namespace spate::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kSecondNs = 1'000'000'000;

std::string name_of_uid(std::uint32_t uid) { return "user" + std::to_string(uid); }

wire::ClientLoad load_of(std::uint64_t client, std::string description, std::uint64_t requests) {
  wire::ClientLoad load;
  load.client = ClientId(client);
  load.uid = 7;
  load.description = std::move(description);
  load.since_ns = kSecondNs;
  load.kinds = {{requests, 0, requests * 1000, requests << 20U}, {}, {}, {}};
  return load;
}

wire::ListLoadsReply reply_at(std::uint64_t seconds, std::vector<wire::ClientLoad> clients,
                              std::uint64_t of_others = 0) {
  return {seconds * kSecondNs, std::move(clients), {{of_others, 0, 0, 0}, {}, {}, {}}, 0};
}

LoadReplies from(ServerId server, wire::ListLoadsReply reply) { return {{server, std::move(reply)}}; }

LoadView view_of(const wire::ListLoadsReply& before, const wire::ListLoadsReply& now) {
  return loads_between(from(ServerId(1), before), from(ServerId(1), now), &name_of_uid);
}

double requests_of(const LoadRow& row) { return sum_of(row.rates).requests; }

TEST(LoadTable, ADescriptionIsTakenApart) {
  const ClientName name = parse_description("node3:4711:solver:step:2");
  EXPECT_EQ(name.host, "node3");
  EXPECT_EQ(name.pid, "4711");
  EXPECT_EQ(name.program, "solver");
  EXPECT_EQ(name.job, "step:2");
  EXPECT_EQ(parse_description("node3:4711:solver").job, "");
  for (const char* other : {"", ":", "client", "a:b", "a:b:c", "a::c", "meta server 1", "a:1"})
    EXPECT_EQ(parse_description(other).program, other);
  const ClientName wild = parse_description("\x1b[2J:1:\xff\n:\x07");
  EXPECT_EQ(wild.host, "\\x1b[2J");
  EXPECT_EQ(wild.program, "\\xff\\x0a");
  EXPECT_EQ(wild.job, "\\x07");
}

TEST(LoadTable, RatesAreDifferencesBetweenTwoAnswersOfAServer) {
  const auto one = [](std::uint64_t requests) { return load_of(5, "h:1:p", requests); };
  const LoadReplies before{{ServerId(1), reply_at(10, {one(100)})}, {ServerId(2), reply_at(50, {one(7)})}};
  const LoadReplies now{{ServerId(1), reply_at(12, {one(140)})},
                        {ServerId(2), reply_at(54, {one(7)})},
                        {ServerId(3), reply_at(9, {one(1000)})}};
  const LoadView view = loads_between(before, now, &name_of_uid);
  ASSERT_EQ(view.rows.size(), 1U);  // one client of several servers makes one row
  EXPECT_DOUBLE_EQ(requests_of(view.rows[0]), 20);
  EXPECT_DOUBLE_EQ(sum_of(view.rows[0].rates).bytes, 20.0 * (1U << 20U));
  EXPECT_DOUBLE_EQ(sum_of(view.rows[0].rates).time_ns, 20'000);
  EXPECT_DOUBLE_EQ(view.seconds, 4);
  EXPECT_EQ(view.rows[0].user, "user7");
}

TEST(LoadTable, AClientWithoutRequestsHasNoRow) {
  const auto load = load_of(5, "h:1:p", 100);
  EXPECT_EQ(view_of(reply_at(10, {load}), reply_at(11, {load})).rows.size(), 0U);
}

TEST(LoadTable, AfterARestartOfAServerItsCountsBeginAtTheStart) {
  const LoadView view = view_of(reply_at(100, {load_of(5, "h:1:p", 1000)}, 50), reply_at(2, {load_of(5, "h:1:p", 8)}));
  ASSERT_EQ(view.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(requests_of(view.rows[0]), 4);
  EXPECT_DOUBLE_EQ(sum_of(view.others).requests, 0);
}

/// When a server makes room by dropping a client, it adds all counts of the client to the others' counts.
TEST(LoadTable, AnEvictedClientIsNotCountedAmongTheOthers) {
  const auto before = reply_at(10, {load_of(5, "h:1:p", 1000)}, 3);
  const LoadView view = view_of(before, reply_at(11, {load_of(6, "h:2:q", 4)}, 1005));
  ASSERT_EQ(view.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(sum_of(view.others).requests, 2);
  wire::ClientLoad back = load_of(5, "h:1:p", 7);
  back.since_ns = 10 * kSecondNs + 1;
  const LoadView again = view_of(before, reply_at(11, {back}, 1005));
  ASSERT_EQ(again.rows.size(), 1U);
  EXPECT_DOUBLE_EQ(requests_of(again.rows[0]), 7);
  EXPECT_DOUBLE_EQ(sum_of(again.others).requests, 2);
}

TEST(LoadTable, FallingCountsAndMissingKindsAreAccepted) {
  auto odd = load_of(5, "h:1:p", 3);
  odd.kinds.resize(1);
  auto more = load_of(6, "h:2:p", 5);
  more.kinds.resize(9, {1, 1, 1, 1});
  const LoadView view = view_of(reply_at(10, {load_of(5, "h:1:p", 1000), more}, 9), reply_at(11, {odd, more}, 1));
  EXPECT_EQ(view.rows.size(), 0U);
  EXPECT_DOUBLE_EQ(sum_of(view.others).requests, 0);
}

LoadView three_clients() {
  return view_of(reply_at(10, {}),
                 reply_at(11, {load_of(1, "a:1:cp:job1", 10), load_of(2, "b:2:cp:job1", 20),
                               load_of(3, "a:3:tar:job2", 25), load_of(4, "\x1b]0;x\x07:1:p\n:\n", 1)}));
}

TEST(LoadTable, RowsAreGroupedAndSorted) {
  auto rows = grouped(three_clients().rows, "job");
  sort_rows(rows, "bytes");
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].name.job, "job1");
  EXPECT_EQ(rows[0].name.host, "");
  EXPECT_EQ(rows[0].clients, 2U);
  EXPECT_DOUBLE_EQ(requests_of(rows[0]), 30);
  EXPECT_EQ(grouped(three_clients().rows, "user").size(), 1U);
  EXPECT_EQ(grouped(three_clients().rows, "host").size(), 3U);
  auto clients = grouped(three_clients().rows, "client");
  for (const std::string_view order : kLoadOrders) {
    sort_rows(clients, order);
    EXPECT_EQ(clients.front().name.pid, "3") << order;
  }
}

TEST(LoadTable, ATableHasNoMoreThanFits) {
  LoadView view = three_clients();
  sort_rows(view.rows, "load");
  const std::string table = load_table(view, 2, 0);
  EXPECT_THAT(table, HasSubstr("job2"));
  EXPECT_THAT(table, HasSubstr("... and 2 more\n"));
  EXPECT_THAT(table, HasSubstr("56.0 MiB"));  // the sum of all rows
  EXPECT_THAT(table, Not(HasSubstr("a:1")));
  const std::string all = load_table(view, 20, 0);
  EXPECT_EQ(escape_controls(all, "\n"), all);
  for (const std::string& line : lines_of(load_table(view, 20, 40))) EXPECT_LE(line.size(), 40U);
  const nlohmann::json told = to_json(view, 20);
  ASSERT_EQ(told["clients"].size(), 4U);
  EXPECT_EQ(told["clients"][0]["job"], "job2");
  EXPECT_EQ(told["clients"][0]["read"]["requests_per_second"], 25.0);
  EXPECT_EQ(told["clients"][0]["read"]["mean_ns"], 1000.0);
  EXPECT_EQ(told["total"]["read"]["requests_per_second"], 56.0);
}

}  // namespace
}  // namespace spate::tools
