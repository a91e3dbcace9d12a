// SPDX-License-Identifier: Apache-2.0
// One client walks the path of a file, and 1,000 others open the file by its handle, as the ranks of a parallel program
// do. What the meta server is asked is counted by the kind of request, from the clients' start to their end.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using client::path_from_root;

constexpr std::size_t kMany = 1000;
constexpr std::size_t kFew = 10;
constexpr std::size_t kAtOnce = 100;  // each step of the simulation looks at all of them
constexpr std::size_t kSize = 3000;

using Counts = std::map<wire::Op, std::uint64_t>;

class OneFileManyClientsTest : public ::testing::Test {
 protected:
  OneFileManyClientsTest() : world_({}), first_(world_.start_client()) {
    std::string path;
    for (int depth = 0; depth < 8; ++depth) {
      path += depth == 0 ? "d" : "/d";
      EXPECT_OK(call(world_, first_, first_.client().mkdir(path_from_root(path), {})));
    }
    path_ = path + "/f";
    file_ = call(world_, first_, first_.client().create(path_from_root(path_), wire::kOpenWrite, {}));
    SPATE_CHECK(file_.has_value());
    EXPECT_OK(call(world_, first_, (*file_)->write(0, Bytes(kSize, std::byte{7}))));
    world_.watch().on_arrival([this](const WatchedRequest& request) {
      if (request.server == kMetaServer) ++asked_[request.op];
    });
  }
  ~OneFileManyClientsTest() override { EXPECT_OK(call(world_, first_, (*file_)->close())); }

  static job::Task<Errc> use(client::Client& client, wire::NamePath where) {
    auto file = co_await client.open(std::move(where), wire::kOpenRead | wire::kOpenWrite);
    if (!file) co_return file.code();
    Bytes room(kSize + 1);
    const auto got = co_await (*file)->read(0, room);
    if (!got) co_return got.code();
    if (*got != kSize || room.front() != std::byte{7}) co_return Errc::kCorrupt;
    const auto closed = co_await (*file)->close();
    co_return closed.code();
  }

  /// Starts `clients`, of which the first `users` open, read and close the file, kAtOnce of them at the same time.
  /// Returns what the meta server was asked.
  Counts ask(std::size_t clients, std::size_t users, const wire::NamePath& where) {
    asked_.clear();
    for (std::size_t begun = 0; begun < clients; begun += kAtOnce) {
      std::vector<ClientProcess*> started;
      std::vector<Outcome<Errc>> outcomes;
      for (std::size_t i = begun; i < std::min(clients, begun + kAtOnce); ++i) {
        ClientProcess& one = *started.emplace_back(&world_.start_client());
        if (i < users) outcomes.push_back(begin_call(one, use(one.client(), where)));
      }
      for (const auto& outcome : outcomes) EXPECT_EQ(end_call(world_, outcome), Errc::kOk);
      for (ClientProcess* one : started) one->quit();
      world_.run_for(std::chrono::milliseconds(100));
    }
    asked_.erase(wire::Op::kKeepAlive);  // the first one of a session opens it; all others come as time passes
    return asked_;
  }
  wire::NamePath by_handle() const {
    wire::NamePath where;
    where.start = (*file_)->handle();
    return where;
  }
  Counts asked_;
  World world_;
  ClientProcess& first_;
  std::string path_;
  Result<std::unique_ptr<client::File>> file_ = Errc::kNotFound;
};

TEST_F(OneFileManyClientsTest, EachClientHasASessionAndSendsItsOpenAndItsClose) {
  const Counts each{{wire::Op::kAuthenticate, kMany},
                    {wire::Op::kEndSession, kMany},
                    {wire::Op::kOpen, kMany},
                    {wire::Op::kClose, kMany}};
  EXPECT_EQ(ask(kMany, kMany, by_handle()), each);
}

TEST_F(OneFileManyClientsTest, ClientsThatShareTheFileSendNoRequests) {
  EXPECT_EQ(ask(kMany, kFew, by_handle()), ask(kFew, kFew, by_handle()));
}

}  // namespace
}  // namespace spate::cluster
