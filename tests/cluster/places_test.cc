// SPDX-License-Identifier: Apache-2.0
// Requests wait for an io server that is down, as long as their clients like. Meanwhile the meta server must serve all
// other requests.

#include <algorithm>
#include <vector>

#include "base/expect.h"
#include "tests/cluster/calls.h"

namespace spate::cluster {
namespace {

using bmi::sim::Death;
using client::path_from_root;

constexpr std::size_t kPlaces = 12;
constexpr std::size_t kFiles = 4 * kPlaces;
constexpr ServerId kAway{2};

/// The results of a run. `failure`: what failed although it did not need the stopped server; empty: nothing.
struct Story {
  std::string failure;
  std::size_t truncated = 0;
};

class Waiting {
 public:
  Waiting(std::uint64_t seed, Plant plant)
      : options_(options(seed, plant)),
        world_(options_),
        stubborn_(start(std::chrono::hours(24))),
        other_(start(std::chrono::seconds(8))) {}

  Story run() {
    Story story;
    const auto cuts = begin();
    const auto sessions = std::pair(identity(stubborn_), identity(other_));
    const Errc failed = make_folders();
    if (failed != Errc::kOk) story.failure = "another client's mkdir failed with " + std::string(name(failed));
    if (story.failure.empty() && std::pair(identity(stubborn_), identity(other_)) != sessions)
      story.failure = "a session has ended though its client lives";
    if (story.failure.empty() && truncations_under_way() > kFiles)
      story.failure = "truncations are under way that nobody waits for any more";
    world_.start_server(kAway);
    for (const auto& cut : cuts) story.truncated += end_call(world_, cut) ? 1U : 0U;
    return story;
  }

  /// An io server joins, so that both clients also ask for the new cluster map. Returns whether their sessions live on.
  bool sessions_live() {
    const auto cuts = begin();
    const auto sessions = std::pair(identity(stubborn_), identity(other_));
    EXPECT_NE(make_folders(), Errc::kOk);  // other requests wait by now
    world_.add_io_server(options_);
    world_.run_for(std::chrono::seconds(20));
    EXPECT_EQ(world_.server(kMetaServer)->meta()->core().membership().map().version, 2);
    world_.start_server(kAway);
    for (const auto& cut : cuts) std::ignore = end_call(world_, cut);
    world_.run_for(std::chrono::seconds(3));  // a client learns from an answer that its session has ended
    return std::pair(identity(stubborn_), identity(other_)) == sessions;
  }

 private:
  using Session = std::pair<ClientId, std::uint32_t>;

  /// Begins as many truncations as there are files. Each waits for the server that is away.
  std::vector<Outcome<Result<void>>> begin() {
    make_files();
    world_.kill_server(kAway, Death::kProcess);
    std::vector<Outcome<Result<void>>> cuts;
    for (std::size_t i = 0; i < kFiles; ++i)
      cuts.push_back(begin_call(stubborn_, stubborn_.client().truncate(file(i), 5)));
    return cuts;
  }

  /// The other client makes one each second, 20 in all, or until it fails. Returns the error.
  Errc make_folders() {
    for (int i = 0; i < 20; ++i) {
      world_.run_for(std::chrono::seconds(1));
      const auto made = call(world_, other_, other_.client().mkdir(path_from_root("d" + std::to_string(i)), {}));
      if (!made) return made.code();
    }
    return Errc::kOk;
  }

  static WorldOptions options(std::uint64_t seed, Plant plant) {
    WorldOptions options;
    options.seed = seed;
    options.plant = plant;
    options.max_requests = kPlaces;
    return options;
  }
  /// An attempt lasts longer than the lease. So no handshake of a second attempt keeps the session alive.
  ClientProcess& start(Duration deadline) {
    client::Options options = small_client_options({}, {}, {});
    options.deadline = deadline;
    options.attempt_timeout = std::chrono::seconds(10);
    return world_.start_client(std::move(options));
  }
  std::size_t truncations_under_way() {
    const auto& requests = world_.watch().under_way();
    return static_cast<std::size_t>(std::count_if(requests.begin(), requests.end(), [](const WatchedRequest& request) {
      return request.op == wire::Op::kTruncate && request.ended == MonoTime::never();
    }));
  }
  static client::NamePath file(std::size_t i) { return path_from_root("f" + std::to_string(i)); }
  static Session identity(ClientProcess& process) {
    const rpc::Identity& identity = process.client().session().identity();
    return {identity.client, identity.epoch};
  }
  void make_files() {
    for (std::size_t i = 0; i < kFiles; ++i) {
      auto made = call(world_, stubborn_, stubborn_.client().create(file(i), wire::kOpenWrite, {}));
      ASSERT_OK(made);
      EXPECT_OK(call(world_, stubborn_, (*made)->close()));
    }
    EXPECT_OK(call(world_, other_, other_.client().mkdir(path_from_root("d"), {})));
  }

  const WorldOptions options_;
  World world_;
  ClientProcess& stubborn_;
  ClientProcess& other_;
};

TEST(RequestPlacesTest, RequestsThatWaitForAnIoServerDelayNoOthers) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const Story story = Waiting(seed, Plant::kNone).run();
    EXPECT_EQ(story.failure, "") << "seed " << seed;
    EXPECT_EQ(story.truncated, kFiles) << "seed " << seed;
  }
}

TEST(RequestPlacesTest, AServerThatDelaysOthersIsDetected) {
  EXPECT_NE(Waiting(1, Plant::kHoardedPlaces).run().failure, "");
}

TEST(RequestPlacesTest, SessionsLiveWhileTheServerHasNoPlaceForOtherRequests) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    EXPECT_TRUE(Waiting(seed, Plant::kHoardedPlaces).sessions_live()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace spate::cluster
