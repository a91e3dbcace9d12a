// SPDX-License-Identifier: Apache-2.0
// Messages of the meta servers to the io servers are late by seconds. A member that takes a primary's place must learn
// that it did.
#include <gmock/gmock.h>

#include "base/expect.h"
#include "base/expect_bytes.h"
#include "tests/mirror/mirror_world.h"

namespace spate::cluster {
namespace {

using namespace std::chrono_literals;

// A new connection takes several late round trips.
constexpr std::uint32_t kConnectMs = 6000;
constexpr std::uint32_t kHandshakeMs = 15'000;

enum class Late : std::uint8_t { kAll, kLeaderOnly };
enum class Way : std::uint8_t { kToIo, kToMeta, kBoth };

struct Slow {
  std::uint32_t meta_servers;
  Duration by;
  Way way = Way::kToIo;
  Late late = Late::kAll;
};

class SlowLinks : public ::testing::TestWithParam<Slow> {
 protected:
  SlowLinks() : mirrors_(options()), client_(world().start_client(patient())) {}

  static WorldOptions options() {
    WorldOptions options = mirror_options();
    options.meta_servers = GetParam().meta_servers;
    options.connect = {kConnectMs, kHandshakeMs};
    return options;
  }
  static client::Options patient() {
    client::Options options = small_client_options({}, {}, {});
    options.deadline = 2min;
    return options;
  }
  template <typename T>
  T run(job::Task<T> task) {
    return call(world(), client_, std::move(task));
  }
  void write(client::File& file, std::byte value) {
    content_.assign(20'000, value);
    ASSERT_OK(run(file.write(0, content_)));
  }
  void expect_content(client::File& file) {
    Bytes found(content_.size() + 100);
    const auto got = run(file.read(0, found));
    ASSERT_OK(got);
    found.resize(*got);
    EXPECT_BYTES(found, content_);
  }
  void delay(ServerId meta, Duration by) {
    for (const ServerId server : world().servers()) {
      if (world().server(server) == nullptr || world().server(server)->io() == nullptr) continue;
      bmi::sim::Links& links = world().fabric().links();
      if (GetParam().way != Way::kToMeta) links.delay_one_way(meta.value, server.value, by);
      if (GetParam().way != Way::kToIo) links.delay_one_way(server.value, meta.value, by);
    }
  }
  void delay_links() {
    for (const ServerId meta : world().meta_servers()) {
      if (GetParam().late == Late::kAll || meta == world().leader()) delay(meta, GetParam().by);
    }
  }
  World& world() { return mirrors_.world; }

  MirrorWorld mirrors_;
  ClientProcess& client_;
  Bytes content_;
};

TEST_P(SlowLinks, WritesGoOnAfterAPrimaryWasKilled) {
  client::NewObject object;
  object.layout.slot_count = 1;
  auto made = run(client_.client().create(client::path_from_root("f"), kMirrorOpen, object));
  ASSERT_OK(made);
  client::File& file = **made;
  write(file, std::byte{1});
  delay_links();
  world().run_for(10s);
  for (int turn = 0; turn < 2; ++turn) {
    const ServerId dead = mirrors_.primary_of(file);
    mirrors_.kill(dead);
    write(file, std::byte(turn + 2));
    EXPECT_NE(mirrors_.primary_of(file), dead);
    expect_content(file);
    mirrors_.restart(dead);
    ASSERT_TRUE(mirrors_.become_whole(5min)) << "a group lacks a copy";
    EXPECT_EQ(mirrors_.differences(), "");
  }
}

/// The links become slow while the question for the primary's place is on its way.
TEST_P(SlowLinks, WritesGoOnIfTheLinksBecomeSlowInAFailOver) {
  client::NewObject object;
  object.layout.slot_count = 1;
  auto made = run(client_.client().create(client::path_from_root("f"), kMirrorOpen, object));
  ASSERT_OK(made);
  client::File& file = **made;
  write(file, std::byte{1});
  const ServerId dead = mirrors_.primary_of(file);
  mirrors_.kill(dead);
  world().run_for(1s);
  delay_links();
  write(file, std::byte{2});
  expect_content(file);
}

std::string name_of_slow(const ::testing::TestParamInfo<Slow>& info) {
  const Slow& slow = info.param;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(slow.by).count();
  std::string name = std::to_string(slow.meta_servers) + "Meta" + std::to_string(ms) + "ms";
  name += slow.way == Way::kToIo ? "ToIo" : slow.way == Way::kToMeta ? "ToMeta" : "Both";
  return name + (slow.late == Late::kAll ? "" : "LeaderOnly");
}

INSTANTIATE_TEST_SUITE_P(Each, SlowLinks,
                         ::testing::Values(Slow{1, 300ms}, Slow{1, 1200ms}, Slow{1, 2500ms},
                                           Slow{1, 1200ms, Way::kToMeta}, Slow{1, 1200ms, Way::kBoth}, Slow{3, 300ms},
                                           Slow{3, 1200ms}, Slow{3, 2500ms}, Slow{3, 1200ms, Way::kToMeta},
                                           Slow{3, 1200ms, Way::kBoth}, Slow{3, 1200ms, Way::kToIo, Late::kLeaderOnly}),
                         name_of_slow);

}  // namespace
}  // namespace spate::cluster
